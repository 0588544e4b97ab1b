"""The demo as one command: its stack around it, its errors as sentences, Ctrl-C at any moment."""

import signal
import sys
from dataclasses import replace
from types import FrameType

from django.core.management.base import CommandError
from django.db import OperationalError, connections
from rich.console import Console

from apps.policies.weights import PolicyImportError
from apps.runs.launch import LaunchError
from apps.tasks.formats.errors import TaskFormatError
from controlplane.demo.options import DemoOptions
from controlplane.demo.play import Demo
from controlplane.demo.supplies import DemoError
from controlplane.embedded.folders import EmbeddedError
from controlplane.ports import PortError
from controlplane.stack import Choice, StackError, policy_is_elsewhere, prepared_stack
from controlplane.supervisor import Supervisor, SupervisorError

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ERRORS = (
    StackError,
    PortError,
    EmbeddedError,
    SupervisorError,
    DemoError,
    LaunchError,
    TaskFormatError,
    PolicyImportError,
)


def play_demo(given: dict[str, object]) -> None:
    console = Console(stderr=True)
    try:
        options = DemoOptions.of(given)
        without = ["policy"] if policy_is_elsewhere() else []
        with prepared_stack(replace(Choice.of(without=without), prepare=False), console=None) as supervisor:
            _play_and_serve(Demo(supervisor, console, options), supervisor)
    except KeyboardInterrupt:
        console.print("Stopped. The next `make demo` goes on from here.")
        sys.exit(1 if given["exit"] else 0)  # with --exit, somebody waits for the numbers
    except OperationalError as error:
        raise CommandError(f"The database does not answer: {str(error).strip()}. Run the demo again.") from error
    except ERRORS as error:
        raise CommandError(str(error)) from error


def _play_and_serve(demo: Demo, supervisor: Supervisor) -> None:
    """The database ends with the stack, and the stack only after the last question to the database."""
    for signum in SIGNALS:
        signal.signal(signum, _interrupt)
    try:
        demo.play()
    finally:
        for signum in SIGNALS:
            signal.signal(signum, lambda _signum, _frame: supervisor.ask_to_stop())
        demo.memory.stop()
        _leave_the_database()
    if not demo.options.leave and not supervisor.stopping:
        demo.say(f"Serving at {demo.address()} until Ctrl-C.")
        supervisor.wait()


def _leave_the_database() -> None:
    """The threads of a pool would complain of a database that ends before them."""
    server = connections["default"]
    server.close()
    server.close_pool()  # type: ignore[attr-defined]  # PostgreSQL's, which the stubs lack


def _interrupt(_signum: int, _frame: FrameType | None) -> None:
    """Once: what is cleared away after it is not interrupted again."""
    for signum in SIGNALS:
        signal.signal(signum, signal.SIG_IGN)
    raise KeyboardInterrupt
