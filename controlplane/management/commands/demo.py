"""manage.py demo: start everything, train the bundled model on the bundled tasks, show what it learnt, keep serving."""

import signal
import sys
from argparse import ArgumentParser
from dataclasses import replace
from pathlib import Path
from types import FrameType

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console

from apps.runs.config import RunConfig
from apps.runs.control import cancel
from apps.runs.launch import LaunchError, launch_run
from apps.runs.models import Run
from apps.runs.presets import PRESETS
from apps.tasks.formats.errors import TaskFormatError
from controlplane.demo.memory import PeakMemory
from controlplane.demo.report import closing_lines, closing_table, numbers, write_json
from controlplane.demo.supplies import (
    MODEL,
    DemoError,
    bundled_tasks,
    finish_conversion,
    start_conversion,
    wait_for_controls,
)
from controlplane.demo.watch import RunWatch, bars
from controlplane.embedded.folders import EmbeddedError
from controlplane.installation import prepare_installation
from controlplane.ports import PortError
from controlplane.stack import Choice, StackError, prepared_stack
from controlplane.supervisor import Supervisor, SupervisorError

NAMES = {"warm-grpo": "demo", "control": "demo control"}


class Command(BaseCommand):
    help = "Train the bundled model on the bundled tasks, from nothing, and show what it learnt."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--exit", action="store_true", help="stop at the table instead of serving on")
        parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here")
        parser.add_argument("--again", action="store_true", help="train anew, even if a finished demo is there")
        parser.add_argument("--preset", choices=sorted(NAMES), default="warm-grpo", help="control: a coin for a reward")
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--quick", action="store_true", help="a few steps: shows that it runs, not that it learns")

    def handle(self, *_args: object, **options: object) -> None:
        console = Console(stderr=True)
        try:
            with prepared_stack(replace(Choice.of(), prepare=False), console=None) as supervisor:
                Demo(supervisor, console, options).run()
        except (
            StackError,
            PortError,
            EmbeddedError,
            SupervisorError,
            DemoError,
            LaunchError,
            TaskFormatError,
        ) as error:
            raise CommandError(str(error)) from error


class Demo:
    """One go of the demo, on a stack that it starts."""

    def __init__(self, supervisor: Supervisor, console: Console, options: dict[str, object]) -> None:
        self.supervisor = supervisor
        self.console = console
        self.preset = str(options["preset"])
        self.seed = int(str(options["seed"]))
        self.quick = bool(options["quick"])
        self.json = Path(str(options["json"])) if options["json"] else None
        self.leave = bool(options["exit"])
        self.again = bool(options["again"])
        self.memory = PeakMemory()

    def run(self) -> None:
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, self._ask_to_stop)
        self.console.print("Starting the database, the broker and the processes of Assay ...")
        self.supervisor.start()
        self.memory.start()
        self._welcome()
        run = self._find_or_launch()
        with bars(self.console) as progress:
            ended = RunWatch(run, progress).until_ended(self._stopping)
        self.memory.stop()
        if ended:
            self._report(run)
        if not self.leave and not self.supervisor.stopping:
            self.console.print(f"Serving at {self._address()} until Ctrl-C.")
            self.supervisor.wait()

    def _stopping(self) -> bool:
        """Raises DemoError if a process refuses to run on this host: nothing would ever move."""
        if refused := self.supervisor.refused():
            raise DemoError(f"{', '.join(refused)} cannot run here; see {settings.ASSAY_DATA}/logs/{refused[0]}.log")
        return self.supervisor.stopping

    def _ask_to_stop(self, _signum: int, _frame: FrameType | None) -> None:
        self.supervisor.ask_to_stop()

    def _address(self) -> str:
        host, port = settings.ASSAY_WEB_BIND
        return f"http://{host}:{port}/"

    def _welcome(self) -> None:
        made = prepare_installation()
        self.project, self.user = made.project, made.administrator
        self.console.print(f"The dashboard is at [bold]{self._address()}[/bold]")
        if made.new_password:
            self.console.print(
                f"Sign in as [bold]{made.administrator.username}[/bold], password [bold]{made.new_password}[/bold] "
                "(shown this once)"
            )

    def _find_or_launch(self) -> Run:
        name = NAMES[self.preset]
        earlier = Run.objects.filter(project=self.project, name=name).order_by("-id").first()
        if earlier is not None and not self.again and earlier.state not in ("failed", "cancelled"):
            self.console.print(f"Run {earlier.pk} is {earlier.state}: {self._address()}runs/{earlier.pk}")
            return earlier
        if earlier is not None and not earlier.ended:
            cancel(earlier, self.user.username, "the demo begins again")
        conversion = start_conversion()
        task_set, controls = bundled_tasks(self.project)
        if controls is not None:
            with bars(self.console) as progress:
                bar = progress.add_task("proving the bundled tasks", total=None, note="solution passes, no-op fails")

                def show(done: int, total: int) -> None:
                    if self._stopping():
                        raise DemoError("Stopped. The next `make demo` goes on from here.")
                    progress.update(bar, completed=done, total=total)

                wait_for_controls(task_set, show)
        policy = finish_conversion(conversion, self.project)
        preset = PRESETS[self.preset]
        run = launch_run(
            self.project,
            self.user,
            name,
            task_set,
            policy,
            _config(preset.config, self.seed, quick=self.quick),
            kind=preset.kind,
            formula=preset.formula,
        )
        self.console.print(f"{MODEL} starts on {task_set}: {self._address()}runs/{run.pk}")
        return run

    def _report(self, run: Run) -> None:
        if run.state != "finished":
            raise DemoError(f"Run {run.pk} is {run.state}: {run.failure or 'see its page'}")
        values = numbers(run, peak_rss_bytes=self.memory.peak_bytes)
        Console(file=sys.stdout).print(closing_table(run, values))
        for line in closing_lines(values):
            print(line)
        if self.json is not None:
            write_json(self.json, values)


def _config(config: RunConfig, seed: int, *, quick: bool) -> RunConfig:
    few = {"sft_steps": 3, "grpo_steps": 3, "groups_per_step": 4, "evaluation_tries": 1, "evaluation_every": 0}
    return config.changed(seed=seed, **(few if quick else {}))
