"""The policy version that this learner holds in memory, and how it comes there."""

from dataclasses import dataclass
from pathlib import Path

import torch

from learner.checkpoint import Resume, check_weights, read_resume
from learner.messages import StepMetrics, StepRequest
from learner.network import Network
from learner.optimizer import MasterAdamW

_DTYPE = torch.bfloat16


@dataclass
class Resident:
    """A network with its optimiser state, as of one version of one run."""

    run_id: int
    version: int
    network: Network
    optimizer: MasterAdamW
    unwritten: tuple[int, str, StepMetrics] | None = None
    """Step id, batch key and numbers of an update that was made but could not be written yet."""

    def holds(self, run_id: int, version: int) -> bool:
        return (self.run_id, self.version) == (run_id, version) and self.unwritten is None

    def made(self, request: StepRequest) -> StepMetrics | None:
        """The numbers of this very step, if only its writing failed before."""
        if self.unwritten and self.unwritten[:2] == (request.step_id, request.batch_key):
            return self.unwritten[2]
        return None


def settle(resident: Resident | None, request: StepRequest, parent: Path) -> Resident | None:
    """The parent version, ready for the request's step; None if its optimiser state is nowhere.

    parent is the local folder of its weights. Raises DamagedFileError, CheckpointError or NetworkError.
    """
    if resident and resident.holds(request.run_id, request.parent_version):
        if request.fresh_optimizer:
            resident.optimizer.restart()
        return resident
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
    return Resident(run_id, version, network, optimizer)
