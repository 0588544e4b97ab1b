"""Builds recipes for bubblewrap: a layer for each instruction that changes files, each made once by its digest."""

import logging
import os
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sandbox_worker.sandbox import layout
from sandbox_worker.sandbox.base import Limits
from sandbox_worker.sandbox.images import folder as folders
from sandbox_worker.sandbox.images import host_base, locks
from sandbox_worker.sandbox.images.building import (
    ENV,
    Building,
    chain_of,
    is_default,
    require_programs,
    require_startable,
    require_workdir,
    said_of,
    where,
)
from sandbox_worker.sandbox.images.copying import made_by, write_tar
from sandbox_worker.sandbox.images.errors import (
    BuildError,
    ImageError,
    MissingImageError,
    UnsupportedImageError,
    WrongArchitectureError,
)
from sandbox_worker.sandbox.images.failures import Failures
from sandbox_worker.sandbox.images.merged import Merged
from sandbox_worker.sandbox.images.recipe import BuiltImage, ImageBuilder, Recipe
from sandbox_worker.sandbox.images.run_step import StepRequest
from sandbox_worker.sandbox.images.steps import run_step
from sandbox_worker.sandbox.images.store import ImageStore, Record
from sandbox_worker.sandbox.images.workspace import workspace_of
from wire.dockerfile import Copy, DockerfileError, Folder, Run, Step

log = logging.getLogger(__name__)


class LayeredBuilder(ImageBuilder):
    def __init__(self, store: ImageStore, *, allow_weaker: bool = False) -> None:
        self._store = store
        self._allow_weaker = allow_weaker
        self._failures = Failures()

    def knows(self, base: str) -> bool:
        return not is_default(base) and self._store.named(base) is not None

    def build(self, recipe: Recipe, limits: Limits, check: Callable[[], None]) -> BuiltImage:
        digest, record = self.base(recipe.dockerfile.base)
        chain = chain_of(digest, recipe)
        said = ""
        final = self._store.record(chain[-1]) if len(chain) > 1 else record
        if final is None:
            with locks.held(self._store.lock_path(chain[-1], "build"), check=check):
                final, said = self._build_unless_it_failed(
                    Building(recipe, limits, check, recipe.seconds), chain, record
                )
        return self._built(chain[-1], final, recipe, limits, said)

    def _build_unless_it_failed(self, building: Building, chain: list[str], base: Record) -> tuple[Record, str]:
        key = (chain[-1], building.limits, building.recipe.seconds)
        self._failures.raise_again(key)
        try:
            return self._build(building, chain, base)
        except ImageError as error:
            self._failures.remember(key, error)
            raise

    def base(self, name: str) -> tuple[str, Record]:
        """The digest and the layers that FROM begins with. Raises MissingImageError, WrongArchitectureError."""
        if is_default(name):
            base = host_base.digest()
            return base, Record(base=base, machine=platform.machine())
        digest = self._store.named(name)
        record = self._store.record(digest) if digest else None
        if digest is None or record is None:
            raise MissingImageError(name)
        if record.machine != platform.machine():
            raise WrongArchitectureError(name, record.machine, platform.machine())
        return digest, record

    def _build(self, building: Building, chain: list[str], base: Record) -> tuple[Record, str]:
        """From the last step that was made before, by this host or another."""
        steps = building.recipe.dockerfile.steps
        done, record, said = 0, base, []
        for number in range(len(steps), 0, -1):
            if (found := self._store.record(chain[number])) is not None:
                done, record = number, found
                break
        for number, step in enumerate(steps[done:], start=done):
            building.check()
            log.info("building %s, step %d of %d: %s", chain[-1], number + 1, len(steps), where(step.instruction))
            record, words = self._step(building, record, step)
            said.append(said_of(where(step.instruction), words))
            self._store.keep(chain[number + 1], record)
        return record, "\n".join(said)

    def _step(self, building: Building, record: Record, step: Step) -> tuple[Record, str]:
        place = where(step.instruction)
        if len(record.layers) >= self._store.most_layers:
            raise UnsupportedImageError(f"{place}: an image of more than {self._store.most_layers} layers")
        tar_place = folders.new_place(self._store.folder)
        try:
            if isinstance(step, Run):
                return self._run(building, record, step, tar_place / "layer.tar")
            return self._copy(building, record, step, tar_place / "layer.tar"), ""
        finally:
            folders.remove(tar_place)

    def _copy(self, building: Building, record: Record, step: Copy | Folder, tar: Path) -> Record:
        merged = self.merged(record)
        try:
            made = made_by(step, building.recipe.files, merged)
        except DockerfileError as error:
            raise BuildError(where(step.instruction), error.why) from error
        if all(file is None and merged.find(path) for path, file in made.items()):
            return record  # a folder that was there
        write_tar(tar, made, merged, is_layer=True)
        return replace(record, layers=(*record.layers, self._store.adopt(tar)))

    def _run(self, building: Building, record: Record, step: Run, tar: Path) -> tuple[Record, str]:
        require_startable(building, self.merged(record), step)
        with locks.held(self._store.folder / "locks" / "builds", check=building.check):
            began = time.monotonic()
            said = run_step(self._request(building, record, step, tar), where(step.instruction), building.check)
            building.seconds -= time.monotonic() - began
        return replace(record, layers=(*record.layers, self._store.adopt(tar))), said

    def _request(self, building: Building, record: Record, step: Run, tar: Path) -> StepRequest:
        return StepRequest(
            parent=os.getpid(),
            layers=self._store.layers(record),
            host_usr=bool(record.base),
            scratch=str(self._store.folder / "scratch"),
            owner=self._store.owner,
            command=step.command,
            workdir=step.workdir,
            env=tuple((dict(ENV) | dict(record.env) | dict(step.env)).items()),
            as_root=step.as_root,
            limits=building.limits,
            seconds=building.seconds,
            label=f"build.{step.instruction.line}",
            allow_weaker=self._allow_weaker,
            target=str(tar),
        )

    def merged(self, record: Record) -> Merged:
        return Merged(self._store.layers(record), host_usr=bool(record.base))

    def _built(self, digest: str, record: Record, recipe: Recipe, limits: Limits, said: str) -> BuiltImage:
        require_workdir(recipe.workdir, self.taken if record.base else layout.TAKEN_OF_IMAGES)
        merged = self.merged(record)
        require_programs(merged)
        workspace = workspace_of(merged, recipe.workdir, limits.disk_bytes)
        return BuiltImage(digest if record.layers else "", record.env, workspace, record.size, said)
