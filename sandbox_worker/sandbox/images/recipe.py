"""What an image is made from and what comes of it: the same for every back end that builds.

A recipe is content: two tasks with the same environment share one image, whichever host builds it.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sandbox_worker.sandbox import layout
from sandbox_worker.sandbox.base import Limits
from wire.dockerfile import Copy, Dockerfile, Folder, Run, Step


@dataclass(frozen=True)
class RecipeFile:
    data: bytes
    executable: bool

    @property
    def mode(self) -> int:
        return 0o755 if self.executable else 0o644


@dataclass(frozen=True)
class Recipe:
    dockerfile: Dockerfile
    files: Mapping[str, RecipeFile]
    """Of the build folder, by relative path."""
    workdir: str
    """Of the boxes: an image's files there are given to a box as its working folder."""
    seconds: float = 600.0
    """For the whole build."""


@dataclass(frozen=True)
class BuiltImage:
    digest: str
    """'sha256:…', for BoxSpec.image."""
    env: tuple[tuple[str, str], ...]
    """Of its base; what the Dockerfile says is stronger."""
    workspace: bytes
    """What it has in the working folder, as a tar for Box.restore: a box's working folder begins empty."""
    size: int
    """Bytes of what was added to its base."""
    log: str
    """Of the build, its head and its tail; empty where it was built before."""


class ImageBuilder(ABC):
    """Builds what a recipe says, at most once a host."""

    taken: tuple[str, ...] = layout.TAKEN
    """In which folders no box on the back end's own base can have its working folder."""

    @abstractmethod
    def knows(self, base: str) -> bool:
        """Whether a name after FROM is an image of its own, not only another word for the host's programs."""

    @abstractmethod
    def build(self, recipe: Recipe, limits: Limits, check: Callable[[], None]) -> BuiltImage:
        """check is asked while others build or this does, and raises to give up.

        Raises ImageError where the recipe is at fault, SandboxError where our side is."""


def next_digest(parent: str, step: Step, files: Mapping[str, RecipeFile]) -> str:
    """Of the image after a step, from that before it: the words of the step, and the content that it copies."""
    content = json.dumps([parent, *_words(step), sorted(_contents(step, files))], ensure_ascii=True)
    return f"sha256:{hashlib.sha256(content.encode()).hexdigest()}"


def _words(step: Step) -> list[object]:
    match step:
        case Folder(path=path):
            return ["folder", path]
        case Copy(sources=sources, target=target, into_folder=into):
            return ["copy", list(sources), target, into]
        case Run(command=command, workdir=workdir, env=env, as_root=as_root):
            return ["run", list(command), workdir, [list(pair) for pair in env], as_root]


def _contents(step: Step, files: Mapping[str, RecipeFile]) -> list[tuple[str, int, str]]:
    if not isinstance(step, Copy):
        return []
    roots = [source.strip("/").removeprefix("./") for source in step.sources]
    wanted = [name for name in files if any(root in ("", ".", name) or name.startswith(f"{root}/") for root in roots)]
    return [(name, files[name].mode, hashlib.sha256(files[name].data).hexdigest()) for name in wanted]
