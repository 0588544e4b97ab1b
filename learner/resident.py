"""The policy version that this learner holds in memory, and how it comes there."""

from dataclasses import dataclass
from pathlib import Path

import torch

from learner.checkpoint import Resume, check_weights, read_companions, read_resume
from learner.messages import StepMetrics, StepRequest
from learner.network import Network
from learner.optimizer import MasterAdamW

_DTYPE = torch.bfloat16


@dataclass(frozen=True)
class Made:
    """A step that was made, as far as the memory goes."""

    step_id: int
    batch_key: str
    metrics: StepMetrics


@dataclass
class Resident:
    """A network with its optimiser state, as of one version of one run."""

    run_id: int
    version: int
    network: Network
    optimizer: MasterAdamW
    companions: dict[str, bytes]
    """The files that stand beside the weights: the same for every version of a run."""
    newest: Made | None = None
    """The step that it made last, until it learns another: asked for again, it is only written again."""
    written: bool = True
    """False while the newest step has not reached the store: what is in memory is no version then."""

    def holds(self, run_id: int, version: int) -> bool:
        return (self.run_id, self.version) == (run_id, version) and self.written

    def made(self, request: StepRequest) -> StepMetrics | None:
        """The numbers of this very step, if it was made already."""
        newest = self.newest
        if newest and (newest.step_id, newest.batch_key) == (request.step_id, request.batch_key):
            return newest.metrics
        return None

    def keep_made(self, request: StepRequest, metrics: StepMetrics) -> None:
        """The request's step is made, and not written yet if it changed anything."""
        self.newest = Made(request.step_id, request.batch_key, metrics)
        self.written = not metrics.trained_tokens

    def keep_written(self, version: int) -> None:
        self.version = version
        self.written = True


def load_parent(request: StepRequest, parent: Path) -> Resident | None:
    """The parent version, ready for the request's step; None if its optimiser state is nowhere.

    parent is the local folder of its weights. Raises DamagedFileError, CheckpointError or NetworkError.
    """
    resume = None if request.fresh_optimizer else read_resume(parent)
    if resume is None and not request.fresh_optimizer:
        return None
    return load(request.run_id, request.parent_version, parent, resume)


def load(run_id: int, version: int, folder: Path, resume: Resume | None) -> Resident:
    check_weights(folder)
    network = Network(folder, _DTYPE)
    optimizer = MasterAdamW(network.module)
    if resume:
        optimizer.restore(resume.state)
    return Resident(run_id, version, network, optimizer, read_companions(folder))
