"""Carries out step requests one after another: every request ends in exactly one outcome, written before it is told."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from learner.checkpoint import Resume, write_checkpoint
from learner.errors import LearnerError
from learner.manifest import read_manifest
from learner.memory import give_back
from learner.messages import BatchData, StepMetrics, StepOutcome, StepReady, StepRequest
from learner.resident import Resident, settle
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
            self.taken += 1
        except (LearnerError, StoreError) as error:
            self.failed += 1
            log.warning("step %s of run %s failed: %s", request.step_id, request.run_id, error)
            outcome = msgspec.structs.replace(base, error=str(error))
        except Exception as error:
            self.failed += 1
            log.exception("step %s of run %s broke", request.step_id, request.run_id)
            self._resident = None  # what it holds is not known any more
            outcome = msgspec.structs.replace(base, error=f"{type(error).__name__}: {error}")
        return msgspec.structs.replace(outcome, finished_at=time.time())

    def _made(self, request: StepRequest, base: StepOutcome) -> StepOutcome:
        self._keep_going(request)
        parent = self._store.local_folder(request.parent_prefix, self._folders.cache)
        metrics = self._resident.made(request) if self._resident else None
        if metrics is None:
            began = time.monotonic()
            settled = settle(self._given_up(request), request, parent)
            if settled is None:
                return msgspec.structs.replace(base, state="not_resident")
            self._resident = settled
            metrics = self._learn(settled, request, load_seconds=time.monotonic() - began)
        assert self._resident is not None
        if not metrics.trained_tokens:
            return self._skipped(request, base, parent, metrics)
        return self._written(self._resident, request, base, parent, metrics)

    def _given_up(self, request: StepRequest) -> Resident | None:
        """What is in memory, if the request can use it; else its memory is freed before another version is loaded."""
        if self._resident and not self._resident.holds(request.run_id, request.parent_version):
            self._resident = None
        return self._resident

    def _learn(self, resident: Resident, request: StepRequest, *, load_seconds: float) -> StepMetrics:
        step = Step(request.kind, self._batch(request).groups, request.settings)
        metrics = take_step(resident.network, resident.optimizer, step, lambda: self._keep_going(request))
        give_back()  # before the checkpoint is written, which needs much, too
        metrics = msgspec.structs.replace(metrics, load_seconds=load_seconds)
        if request.kind == "sft" and not metrics.trained_tokens:
            raise LearnerError("the batch holds no trainable id")
        if metrics.trained_tokens:
            resident.unwritten = (request.step_id, request.batch_key, metrics)
        return metrics

    def _batch(self, request: StepRequest) -> BatchData:
        try:
            return msgspec.json.decode(self._store.get(request.batch_key), type=BatchData)
        except msgspec.MsgspecError as error:
            raise LearnerError(f"batch {request.batch_key} cannot be read: {error}") from error

    def _skipped(self, request: StepRequest, base: StepOutcome, parent: Path, metrics: StepMetrics) -> StepOutcome:
        """Every group was flat: the new version is its parent under a new number, and nothing is written."""
        assert self._resident is not None
        self._resident.version = request.version
        manifest = read_manifest(parent)
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

    def _written(
        self, resident: Resident, request: StepRequest, base: StepOutcome, parent: Path, metrics: StepMetrics
    ) -> StepOutcome:
        """If writing fails the update stays in memory as unwritten: the same step tried again only writes."""
        began = time.monotonic()
        resume = None
        if request.resumable:
            resume = Resume(request.run_id, request.version, request.kind, resident.optimizer.compact())
        manifest = write_checkpoint(
            self._store, request.write_prefix, resident.network.tensors(), parent, self._folders.scratch, resume
        )
        resident.version = request.version
        resident.unwritten = None
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
