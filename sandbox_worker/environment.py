"""A task's environment made ready: most need nothing but their files, the others an image that is built once."""

from collections.abc import Callable
from dataclasses import replace

from sandbox_worker.sandbox.base import Limits
from sandbox_worker.sandbox.images.building import require_workdir
from sandbox_worker.sandbox.images.recipe import ImageBuilder
from sandbox_worker.task_content import TaskContent


def with_image(task: TaskContent, images: ImageBuilder, limits: Limits, check: Callable[[], None]) -> TaskContent:
    """With what the image has in the working folder as the agent's files. Raises SandboxError, or as check does."""
    if not task.needs_build and not images.knows(task.recipe.dockerfile.base):
        require_workdir(task.workdir, images.taken)
        return task
    built = images.build(task.recipe, limits, check)
    env = tuple((dict(built.env) | dict(task.env)).items())
    return replace(task, image=built.digest, env=env, environment=built.workspace)
