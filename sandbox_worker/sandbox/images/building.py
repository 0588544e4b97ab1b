"""What builders have in common, whichever boxes they build for."""

import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sandbox_worker.sandbox import layout
from sandbox_worker.sandbox.base import BoxStartError, Limits
from sandbox_worker.sandbox.images.errors import BuildTimedOutError, MissingProgramError, WorkspaceError
from sandbox_worker.sandbox.images.recipe import Recipe, next_digest
from wire.dockerfile import BASE, Instruction, Run

NEEDED = ("bash", "mkdir")
"""Without them no command can be given, and no test be run."""
_FOLDERS = ("/usr/local/bin", "/usr/bin", "/bin")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENV = (("PATH", _PATH), ("HOME", "/root"), ("LANG", "C.UTF-8"), ("TAR_OPTIONS", "--no-same-owner"))
"""A build has no capability, so that as root, too, it gives no file to another user."""


class Tree(Protocol):
    """The files of an image, as a box on it sees them."""

    def resolved(self, path: str) -> str:
        """The path without links on its way, as far as it exists."""

    def mode(self, path: str) -> int | None:
        """As stat has it, links followed; None where there is nothing."""


@dataclass
class Building:
    """One build under way."""

    recipe: Recipe
    limits: Limits
    check: Callable[[], None]
    seconds: float
    """Left of the time for its commands; waiting for other builds takes nothing of it."""


def where(instruction: Instruction) -> str:
    return instruction.place


def is_default(base: str) -> bool:
    """With another tag it is the bundled image, which is the same on every host."""
    return base in (BASE, f"{BASE}:latest")


def chain_of(first: str, recipe: Recipe) -> list[str]:
    """Digests: of what it begins with, and of the image after each step."""
    chain = [first]
    for step in recipe.dockerfile.steps:
        chain.append(next_digest(chain[-1], step, recipe.files))
    return chain


def said_of(step_place: str, words: str) -> str:
    return f"{step_place}\n{words}" if words else step_place


def require_workdir(path: str, taken: tuple[str, ...]) -> None:
    """taken: folders in which none can be. Raises WorkspaceError."""
    try:
        layout.check_workdir(path, taken)
    except BoxStartError as error:
        raise WorkspaceError(f"{error} Set environment.workdir or WORKDIR to a folder such as /app.") from error


def require_programs(tree: Tree) -> None:
    """Raises MissingProgramError."""
    for program in NEEDED:
        if not any(_is_file(tree, f"{folder}/{program}") for folder in _FOLDERS):
            raise MissingProgramError(program)


def require_startable(building: Building, tree: Tree, step: Run) -> None:
    """Raises MissingProgramError, BuildTimedOutError."""
    place = where(step.instruction)
    if step.command[0].startswith("/") and tree.mode(step.command[0]) is None:
        raise MissingProgramError(f"{step.command[0]} ({place})")
    if building.seconds <= 0:
        raise BuildTimedOutError(place, f"the {building.recipe.seconds:.0f} s of the build are over")


def _is_file(tree: Tree, path: str) -> bool:
    mode = tree.mode(path)
    return mode is not None and stat.S_ISREG(mode)
