"""How far behind the learner a sample is, and how far ahead of it rollouts may run.

Four different quantities, none a bound on another: the lag of a sample, the admission bound, the stale budget, and
the age at a target step.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor


class StalenessError(Exception):
    """The versions or counts given cannot be."""


def oldest_version(versions: Iterable[int]) -> int:
    """The oldest that produced any token of the sample."""
    oldest = min(versions, default=None)
    if oldest is None:
        raise StalenessError("a sample without tokens has no version")
    return oldest


def version_lag(oldest_version: int, learner_version: int) -> int:
    """At use: the wait in the buffer counts."""
    if oldest_version > learner_version:
        raise StalenessError(f"a sample of version {oldest_version} before the learner made it: {learner_version}")
    return learner_version - oldest_version


def branch_lag(oldest_version: int, live_versions: Iterable[int]) -> int:
    """The lag in learner steps: numbers that a rewind left behind are no steps. Equal to version_lag without one."""
    return sum(version > oldest_version for version in live_versions)


def fresh_enough(oldest_version: int, learner_version: int, eta: int) -> bool:
    return version_lag(oldest_version, learner_version) <= eta


@dataclass(frozen=True, slots=True)
class Admission:
    """Where a run stands, in rollouts."""

    max_concurrent: int
    running: int
    accepted: int
    """Ever, for training; see accepted_after_recovery."""
    version: int
    """Of the learner."""
    batch: int
    """Rollouts a learner step takes."""
    eta: int

    def __post_init__(self) -> None:
        if self.batch < 1 or min(self.max_concurrent, self.running, self.accepted, self.version, self.eta) < 0:
            raise StalenessError(f"not a state of a run: {self}")


def admission_capacity(state: Admission) -> int:
    """How many more rollouts may start now. Bounds the whole, not each sample."""
    slots = state.max_concurrent - state.running
    ahead = (state.eta + state.version + 1) * state.batch - (state.accepted + state.running)
    return max(0, min(slots, ahead))


def may_admit(admitted: int, batch: int, version: int, eta: int) -> bool:
    """Whether the rollout that makes it `admitted` in all is within the bound."""
    return (admitted - 1) // batch <= version + eta


def accepted_after_recovery(version: int, batch: int) -> int:
    """What `accepted` starts from after a restart; from 0 the capacity would explode."""
    return version * batch


def stale_budget(threshold: float, sync_interval: int, batches: int, mini_batch: int, already_stale: int) -> int:
    """Rollouts that may still start before the next weights, with a share `threshold` of them stale."""
    # Without the hair, 1.15 x 20 would be 22.
    allowed = floor((1 + threshold) * (sync_interval * batches * mini_batch) + 1e-9)
    return max(0, allowed - already_stale)


def target_age(generation_version: int, target_step: int) -> int:
    """Between the weights that generate a sample and the training step that it is reserved for."""
    if generation_version > target_step:
        raise StalenessError(f"version {generation_version} generates for the earlier step {target_step}")
    return target_step - generation_version
