"""Carries out step requests one after another: every request ends in exactly one outcome, written before it is told."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from learner.checkpoint import CheckpointError, Resume, write_checkpoint
from learner.errors import LearnerError
from learner.manifest import MANIFEST_NAME, Manifest, decode_manifest
from learner.memory import give_back
from learner.messages import BatchData, StepMetrics, StepOutcome, StepReady, StepRequest
from learner.resident import Resident, load_parent
from learner.step import Step, take_step
from wire.incarnation import Orders
from wire.store import MissingObjectError, Store, StoreError

log = logging.getLogger(__name__)


class StoppedError(LearnerError):
    """The step was cancelled, or its deadline has passed."""


@dataclass(frozen=True)
class Folders:
    cache: Path
    """Copies out of a bucket."""
    scratch: Path
    """Unfinished checkpoints; on the store's own file system if it is a folder."""


class StepTaker:
    """Takes one step at a time. Orders come from another thread."""

    def __init__(
        self, incarnation: str, store: Store, folders: Folders, reply: Callable[[StepRequest, StepReady], None]
    ) -> None:
        self.taken = 0
        self.failed = 0
        self.holding: tuple[str, ...] = ()
        """'<step id>:<fence>' of the step that it is at."""
        self._incarnation = incarnation
        self._store = store
        self._folders = folders
        self._reply = reply
        self._resident: Resident | None = None
        self._newest_fence: dict[int, int] = {}
        self._cancelled: frozenset[str] = frozenset()
        self._one = threading.Lock()

    def obey(self, orders: Orders) -> None:
        self._cancelled = orders.cancelled

    def take(self, request: StepRequest) -> None:
        """Ends with the outcome in the store and the reply on its way. A repeated request only repeats the reply."""
        with self._one:
            if request.fence < self._newest_fence.get(request.step_id, request.fence):
                return  # claimed again since: nobody waits for this one
            self._newest_fence[request.step_id] = request.fence
            if not self._exists(request.outcome_key):
                self.holding = (f"{request.step_id}:{request.fence}",)
                try:
                    self._store.put_if_absent(request.outcome_key, msgspec.json.encode(self._outcome(request)))
                finally:
                    self.holding = ()
        self._reply(
            request,
            StepReady(run_id=request.run_id, step_id=request.step_id, fence=request.fence, key=request.outcome_key),
        )

    def _exists(self, key: str) -> bool:
        try:
            self._store.get(key, length=1)
        except MissingObjectError:
            return False
        return True

    def _outcome(self, request: StepRequest) -> StepOutcome:
        """A step that fails is an outcome; nothing that goes wrong in it reaches the worker."""
        base = StepOutcome(
            run_id=request.run_id,
            step_id=request.step_id,
            fence=request.fence,
            incarnation=self._incarnation,
            state="failed",
            started_at=time.time(),
        )
        try:
            outcome = self._made(request, base)
        except (LearnerError, MissingObjectError) as error:
            outcome = msgspec.structs.replace(base, error=str(error))
        except StoreError as error:  # from reading: nothing was begun
            outcome = msgspec.structs.replace(base, state="not_read", error=str(error))
        except Exception as error:
            log.exception("step %s of run %s broke", request.step_id, request.run_id)
            self._resident = None  # what it holds is not known any more
            outcome = msgspec.structs.replace(base, error=f"{type(error).__name__}: {error}")
        self._count(outcome)
        return msgspec.structs.replace(outcome, finished_at=time.time())

    def _count(self, outcome: StepOutcome) -> None:
        if outcome.state == "made":
            self.taken += 1
            return
        self.failed += 1
        log.warning("step %s of run %s: %s %s", outcome.step_id, outcome.run_id, outcome.state, outcome.error)

    def _made(self, request: StepRequest, base: StepOutcome) -> StepOutcome:
        self._keep_going(request)
        metrics = self._resident.made(request) if self._resident else None
        if metrics is None:
            metrics = self._learned(request)
        if metrics is None:
            return msgspec.structs.replace(base, state="not_resident")
        assert self._resident is not None
        if not metrics.trained_tokens:
            return self._skipped(self._resident, request, base, metrics)
        return self._written(self._resident, request, base, metrics)

    def _learned(self, request: StepRequest) -> StepMetrics | None:
        """Make the update in memory; None if the optimiser state that it needs is nowhere."""
        batch = self._batch(request)
        began = time.monotonic()
        resident = self._settled(request)
        if resident is None:
            return None
        load_seconds = time.monotonic() - began
        step = Step(request.kind, batch.groups, request.settings)
        metrics = take_step(resident.network, resident.optimizer, step, lambda: self._keep_going(request))
        give_back()  # before the checkpoint is written, which needs much, too
        metrics = msgspec.structs.replace(metrics, load_seconds=load_seconds)
        if request.kind == "sft" and not metrics.trained_tokens:
            raise LearnerError("the batch holds no trainable id")
        resident.keep_made(request, metrics)
        return metrics

    def _settled(self, request: StepRequest) -> Resident | None:
        """The parent version in memory, ready for the step. Another one is let go of before the parent is loaded."""
        if self._resident and self._resident.holds(request.run_id, request.parent_version):
            if request.fresh_optimizer:
                self._resident.optimizer.restart()
            return self._resident
        self._resident = None
        try:
            self._store.drop_copies(self._folders.cache, {request.parent_prefix})  # older ones, to make room
            self._resident = load_parent(request, self._store.local_folder(request.parent_prefix, self._folders.cache))
        except OSError as error:
            raise StoreError(f"{request.parent_prefix} cannot be read: {error}") from error
        return self._resident

    def _batch(self, request: StepRequest) -> BatchData:
        try:
            return msgspec.json.decode(self._store.get(request.batch_key), type=BatchData)
        except msgspec.MsgspecError as error:
            raise LearnerError(f"batch {request.batch_key} cannot be read: {error}") from error

    def _skipped(
        self, resident: Resident, request: StepRequest, base: StepOutcome, metrics: StepMetrics
    ) -> StepOutcome:
        """Every group was flat: the new version is its parent under a new number, and nothing is written."""
        manifest = self._manifest(request.parent_prefix)
        resident.keep_written(request.version)
        return msgspec.structs.replace(
            base,
            state="made",
            skipped=True,
            prefix=request.parent_prefix,
            digest=manifest.weights_sha256 if manifest else "",
            size_bytes=manifest.weights_bytes if manifest else 0,
            resumable=manifest.resumable if manifest else False,
            metrics=metrics,
        )

    def _manifest(self, prefix: str) -> Manifest | None:
        """None for an imported policy."""
        try:
            return decode_manifest(self._store.get(f"{prefix}/{MANIFEST_NAME}"))
        except MissingObjectError:
            return None

    def _written(
        self, resident: Resident, request: StepRequest, base: StepOutcome, metrics: StepMetrics
    ) -> StepOutcome:
        """What cannot be written stays in memory: the same step sent again only writes."""
        began = time.monotonic()
        resume = None
        if request.resumable:
            resume = Resume(request.run_id, request.version, request.kind, resident.optimizer.compact())
        files, scratch = resident.companions, self._folders.scratch
        try:
            manifest = write_checkpoint(
                self._store, request.write_prefix, resident.network.tensors(), files, scratch, resume
            )
        except CheckpointError as error:
            return msgspec.structs.replace(base, state="not_written", error=str(error.__cause__ or error))
        resident.keep_written(request.version)
        return msgspec.structs.replace(
            base,
            state="made",
            prefix=request.write_prefix,
            digest=manifest.weights_sha256,
            size_bytes=manifest.weights_bytes,
            resumable=manifest.resumable,
            metrics=msgspec.structs.replace(metrics, write_seconds=time.monotonic() - began),
        )

    def _keep_going(self, request: StepRequest) -> None:
        """Raises StoppedError."""
        if f"{request.step_id}:{request.fence}" in self._cancelled:
            raise StoppedError("the step was cancelled")
        if time.time() > request.deadline:
            raise StoppedError("the step's deadline has passed")
