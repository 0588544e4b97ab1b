"""What is asked of each arm, in which order: rounds in which all arms take turns, then what is asked once."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from benchmarks.boxes.child import ArmSpec

HELD = 8
"""Boxes of the process that is killed."""
SECONDS = 300.0
"""For one batch: an arm that takes longer has failed it."""


@dataclass(frozen=True)
class Step:
    scenario: str
    metric: str
    """Under which a batch that fails as a whole is counted."""
    parameters: Mapping[str, int]


@dataclass(frozen=True)
class Plan:
    rounds: int
    scale: int
    """Everything is divided by it."""

    def each_round(self) -> list[Step]:
        """For an arm of pace 1."""
        return [
            Step("first_commands", "first command, 1 at once", {"at_once": 1, "count": self._sized(8)}),
            Step("first_commands", "first command, 8 at once", {"at_once": 8, "count": self._sized(16)}),
            Step("round_trips", "exec true", {"count": self._sized(40)}),
            Step("lifecycles", "lifecycle, 8 at once", {"at_once": 8, "count": self._sized(24)}),
            Step("lifecycles", "lifecycle, 16 at once", {"at_once": 16, "count": self._sized(32)}),
        ]

    def paced(self, step: Step, arm: ArmSpec) -> Step:
        count = step.parameters["count"] * (arm.pace if self.scale == 1 else 1)
        return replace(step, parameters={**step.parameters, "count": count})

    def once(self, arm: ArmSpec) -> list[Step]:
        steps = [
            Step("crowd", "memory of a live box", {"count": self._sized(arm.crowd)}),
            Step("burst", "first command in a burst", {"count": self._sized(arm.burst)}),
            Step("overshoots", "timeout overshoot", {"count": self._sized(5)}),
            Step("flood", "growth at a flood of output", {}),
        ]
        return [step for step in steps if step.parameters.get("count") != 0]

    @property
    def held(self) -> int:
        return self._sized(HELD)

    def _sized(self, count: int) -> int:
        return min(count, max(1, count // self.scale))


FULL = Plan(rounds=5, scale=1)
QUICK = Plan(rounds=1, scale=8)
