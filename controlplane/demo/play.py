"""One go of the demo, on a stack that it starts."""

import sys
from typing import Any

from django.conf import settings
from rich.console import Console

from apps.runs.config import RunConfig
from apps.runs.control import cancel
from apps.runs.launch import launch_run
from apps.runs.models import Run
from apps.runs.presets import PRESETS
from apps.tasks.models import TaskSet
from controlplane.demo.kept import keep, kept, write_json
from controlplane.demo.memory import PeakMemory
from controlplane.demo.options import DemoOptions
from controlplane.demo.report import closing_lines, closing_table, numbers
from controlplane.demo.supplies import MODEL, Conversion, DemoError, bundled_tasks, import_model, wait_for_controls
from controlplane.demo.watch import RunWatch, bars
from controlplane.installation import prepare_installation
from controlplane.supervisor import Supervisor


class Demo:
    def __init__(self, supervisor: Supervisor, console: Console, options: DemoOptions) -> None:
        self.supervisor = supervisor
        self.console = console
        self.options = options
        self.memory = PeakMemory()

    def play(self) -> None:
        """Raises DemoError."""
        self.say("Starting the database, the broker and the processes of Assay ...")
        self.supervisor.start()
        self.memory.start()
        self._welcome()
        run = self._find_or_launch()
        if not run.ended:
            self._watch(run)
        if run.state != "finished":
            raise DemoError(f"Run {run.pk} is {run.state}: {run.failure or 'see its page'}")
        self._report(run, kept(run).numbers or numbers(run, peak_rss_bytes=kept(run).peak_rss_bytes))

    def say(self, text: str) -> None:
        self.console.print(text)

    def address(self) -> str:
        host, port = settings.ASSAY_WEB_BIND
        return f"http://{host}:{port}/"

    def check(self) -> None:
        """Raises DemoError if a process refuses to run on this host: nothing would ever move."""
        for name in self.supervisor.refused():
            raise DemoError(
                f"{name} cannot run here. It said:\n{self.supervisor.last_words(name)}\n"
                f"(All that it said is in {settings.ASSAY_DATA}/logs/{name}.log.)"
            )

    def _welcome(self) -> None:
        made = prepare_installation()
        self.project, self.user = made.project, made.administrator
        self.say(f"The dashboard is at [bold]{self.address()}[/bold]")
        if made.new_password:
            self.say(
                f"Sign in as [bold]{made.administrator.username}[/bold], password [bold]{made.new_password}[/bold] "
                "(shown this once)"
            )

    def _find_or_launch(self) -> Run:
        earlier = Run.objects.filter(project=self.project, name=self.options.run_name).order_by("-id").first()
        if earlier is not None and not self.options.again and earlier.state not in ("failed", "cancelled"):
            self.say(f"Run {earlier.pk} is {earlier.state}: {self.address()}runs/{earlier.pk}")
            return earlier
        if earlier is not None and not earlier.ended:
            cancel(earlier, self.user.username, "the demo begins again")
        with Conversion() as conversion:
            task_set = self._proven_tasks()
            conversion.finish(self.check)
        return self._launch(task_set)

    def _proven_tasks(self) -> TaskSet:
        task_set, controls = bundled_tasks(self.project)
        if controls is not None:
            with bars(self.console) as progress:
                bar = progress.add_task("proving the bundled tasks", total=None, note="solution passes, no-op fails")

                def show(done: int, total: int) -> None:
                    self.check()
                    progress.update(bar, completed=done, total=total)

                wait_for_controls(task_set, controls, show)
        return task_set

    def _launch(self, task_set: TaskSet) -> Run:
        preset = PRESETS[self.options.preset]
        run = launch_run(
            self.project,
            self.user,
            self.options.run_name,
            task_set,
            import_model(self.project),
            _config(preset.config, self.options),
            kind=preset.kind,
            formula=preset.formula,
        )
        self.say(f"{MODEL} starts on {task_set}: {self.address()}runs/{run.pk}")
        return run

    def _watch(self, run: Run) -> None:
        """Until it has ended; keeps the peak of the memory also where the watch is cut short."""
        before = kept(run).peak_rss_bytes or 0
        try:
            with bars(self.console) as progress:
                RunWatch(run, progress).until_ended(self.check)
        finally:
            peak = max(before, self.memory.peak_bytes)
            keep(run, self.options, peak, None)
        if run.state == "finished":
            keep(run, self.options, peak, numbers(run, peak_rss_bytes=peak))

    def _report(self, run: Run, values: dict[str, Any]) -> None:
        Console(file=sys.stdout).print(closing_table(run, values))
        for line in closing_lines(values):
            sys.stdout.write(f"{line}\n")
        if self.options.json is not None:
            write_json(self.options.json, values)


def _config(config: RunConfig, options: DemoOptions) -> RunConfig:
    """Quick: as little as gives GRPO something to learn from. After fewer SFT steps all its groups would be flat."""
    few = {
        "sft_steps": 10,
        "sft_warmup_steps": 1,
        "sft_learning_rate": 1e-4,
        "grpo_steps": 3,
        "groups_per_step": 4,
        "evaluation_tries": 1,
        "evaluation_every": 0,
        "max_seconds": 60,
    }
    return config.changed(seed=options.seed, **(few if options.quick else {}))
