"""Progress bars of a run in the terminal, read from the database."""

import time
from collections.abc import Callable

from django.utils import timezone
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from apps.evaluation.models import Evaluation
from apps.pipeline.waiting import waiting
from apps.rollouts import states as rollout_states
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from apps.training.models import LearnerStep, live_steps

LOOK_SECONDS = 2.0
HEADS = {"first": "model as it comes", "warm": "after warm start", "interim": "on the way", "last": "after GRPO"}


def bars(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:<34}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
    )


class RunWatch:
    """One bar a phase, made when the phase begins."""

    def __init__(self, run: Run, progress: Progress) -> None:
        self.run = run
        self.progress = progress
        self._bars: dict[str, TaskID] = {}

    def until_ended(self, check: Callable[[], None]) -> None:
        """Checks at each look. Raises what check raises."""
        while True:
            check()
            self.run.refresh_from_db()
            self._show()
            if self.run.ended:
                return
            time.sleep(LOOK_SECONDS)

    def _show(self) -> None:
        config = self.run.config
        self._show_evaluations()
        self._show_steps("sft", "warm start (SFT)", config.sft_steps)
        self._show_steps("grpo", "GRPO", config.grpo_steps)
        if not self.run.ended:
            self.progress.console.set_window_title(f"Assay: {waiting(self.run, timezone.now()).sentence}")

    def _show_evaluations(self) -> None:
        for evaluation in Evaluation.objects.of(self.run).filter(suite="held-out").order_by("id"):
            name = f"held-out, {HEADS[evaluation.why]} (version {evaluation.version})"
            rollouts = Rollout.objects.of(self.run).filter(
                group__purpose="evaluation", group__pinned_version=evaluation.version, group__suite="held-out"
            )
            done = rollouts.filter(state__in=rollout_states.DONE).count()
            note = "" if evaluation.estimate is None else f"{evaluation.estimate * 100:.1f} %"
            self._bar(name, done, rollouts.count(), note)

    def _show_steps(self, kind: str, name: str, total: int) -> None:
        done = live_steps(self.run, kind)
        step = LearnerStep.objects.of(self.run).live().filter(kind=kind).order_by("-version").first()
        if not total or (step is None and kind == "grpo"):
            return
        metrics = step.parsed_metrics() if step else None
        note = ""
        if metrics is not None:
            note = f"loss {metrics.loss:.2f}" if kind == "sft" else f"reward {metrics.reward_mean or 0.0:.2f}"
        self._bar(name, done, total, note)

    def _bar(self, name: str, done: int, total: int, note: str) -> None:
        if name not in self._bars:
            self._bars[name] = self.progress.add_task(name, total=total, note="")
        self.progress.update(self._bars[name], completed=done, total=total, note=note)
