"""manage.py up: every process of Assay on this machine, until Ctrl-C."""

import signal
import sys
from argparse import ArgumentParser
from types import FrameType

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from controlplane.embedded.folders import EmbeddedError
from controlplane.ports import PortError
from controlplane.stack import SERVICES, Choice, StackError, prepared_stack
from controlplane.supervisor import SupervisorError


class Command(BaseCommand):
    help = "Run every process of Assay on this machine, until Ctrl-C."

    def add_arguments(self, parser: ArgumentParser) -> None:
        names = ",".join(SERVICES)
        parser.add_argument("--only", default="", metavar="NAMES", help=f"some of {names}")
        parser.add_argument("--without", default="", metavar="NAMES", help="all but these, such as learner,policy")

    def handle(self, *_args: object, only: str, without: str, **_options: object) -> None:
        try:
            run_until_asked(Choice.of(_names(only), _names(without)))
        except (StackError, PortError, EmbeddedError, SupervisorError) as error:
            raise CommandError(str(error)) from error


def run_until_asked(choice: Choice) -> None:
    with prepared_stack(choice, console=sys.stderr) as supervisor:

        def ask_to_stop(_signum: int, _frame: FrameType | None) -> None:
            supervisor.ask_to_stop()

        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, ask_to_stop)
        supervisor.start()
        host, port = settings.ASSAY_WEB_BIND
        if "web" in choice.services and not supervisor.stopping:
            supervisor.say(f"the pages are at http://{host}:{port}/")
        supervisor.wait()


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
