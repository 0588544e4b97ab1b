"""AdamW on fp32 master weights behind a bf16 network, with gradients summed in fp32.

The state fits into six bytes a weight and comes back exactly: see `compact`.
"""

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch

from learner.errors import LearnerError
from learner.messages import StepSettings

_TIE = 0x8000
_LOW = 0xFFFF


class NotFiniteError(LearnerError):
    """The gradient holds NaN or infinity; no weight was changed."""


Tensors = dict[str, torch.Tensor]
Part = Literal["residual", "mean", "square"]
PARTS: tuple[Part, ...] = get_args(Part)
_MOMENTS: dict[Part, str] = {"mean": "exp_avg", "square": "exp_avg_sq"}


@dataclass(frozen=True)
class CompactState:
    """Beside the network's own bf16 weights, all that the next step depends on.

    Read a part at a time, by name of the weight: residual (int16), mean and square (bf16). Together they would take
    as much memory as a step's gradients.
    """

    read: Callable[[Part], Tensors]
    steps: int


class MasterAdamW:
    """Backward through the network adds to the fp32 sums; `step` or `drop_gradients` ends them."""

    def __init__(self, network: torch.nn.Module) -> None:
        self._named = dict(network.named_parameters())
        self._masters = {name: weight.detach().float().clone() for name, weight in self._named.items()}
        self._sums = {name: torch.empty_like(master) for name, master in self._masters.items()}
        self._summed: set[str] = set()
        self._adam = torch.optim.AdamW(self._masters.values(), lr=0.0, fused=True)
        for name, weight in self._named.items():
            untyped: Any = weight
            untyped.register_post_accumulate_grad_hook(_adder(weakref.ref(self), name))

    @torch.no_grad()
    def restart(self) -> None:
        """As made anew from the network's weights, in the memory that it has: two states at once would be too much."""
        for name, weight in self._named.items():
            self._masters[name].copy_(weight)
        self._adam = torch.optim.AdamW(self._masters.values(), lr=0.0, fused=True)

    @property
    def steps(self) -> int:
        state = next(iter(self._adam.state.values()), None)
        return int(state["step"].item()) if state else 0

    def add_gradient(self, name: str, weight: torch.Tensor) -> None:
        """Move a gradient into its sum as soon as it is there: all of them at once would be another network."""
        if weight.grad is None:
            return
        if name in self._summed:
            self._sums[name].add_(weight.grad)
        else:
            self._sums[name].copy_(weight.grad)
            self._summed.add(name)
        weight.grad = None

    def drop_gradients(self) -> None:
        self._summed.clear()
        for master in self._masters.values():
            master.grad = None

    def step(self, settings: StepSettings) -> float:
        """Update the weights; the gradient's norm before clipping. Raises NotFiniteError and changes nothing."""
        for name in self._summed:
            self._masters[name].grad = self._sums[name]
        norm = float(torch.nn.utils.clip_grad_norm_(self._masters.values(), settings.max_grad_norm))
        if not torch.isfinite(torch.tensor(norm)):
            self.drop_gradients()
            raise NotFiniteError(f"the gradient's norm is {norm}")
        for group in self._adam.param_groups:
            group["lr"] = settings.learning_rate
            group["betas"] = settings.betas
            group["weight_decay"] = settings.weight_decay
        self._adam.step()
        with torch.no_grad():
            for name, weight in self._named.items():
                weight.copy_(self._masters[name])
        self.drop_gradients()
        return norm

    def compact(self) -> CompactState:
        """The state. Reading a part rounds it to what it stores, also the live one: going on equals coming back."""
        return CompactState(self._compact_part, self.steps)

    @torch.no_grad()
    def _compact_part(self, part: Part) -> Tensors:
        tensors: Tensors = {}
        for name, master in self._masters.items():
            if part == "residual":
                tensors[name] = _take_residual(master, self._named[name])
                continue
            moment = self._moment(master, part)
            tensors[name] = moment.to(torch.bfloat16)
            moment.copy_(tensors[name])
        return tensors

    @torch.no_grad()
    def restore(self, state: CompactState) -> None:
        """Continue from a compact state of the weights that the network holds."""
        for name, residual in state.read("residual").items():
            _put_residual(self._masters[name], self._named[name], residual)
        for master in self._masters.values():
            self._adam.state[master] = {"step": torch.tensor(float(state.steps))}
        for part, key in _MOMENTS.items():
            for name, moment in state.read(part).items():
                self._adam.state[self._masters[name]][key] = moment.float()

    def _moment(self, master: torch.Tensor, part: Part) -> torch.Tensor:
        moments = self._adam.state.get(master)
        return moments[_MOMENTS[part]] if moments else torch.zeros_like(master)


def _adder(optimizer: "weakref.ref[MasterAdamW]", name: str) -> Callable[[torch.Tensor], None]:
    """A weight's hook. It does not keep the optimiser, which knows the weight: the circle would hold both in memory."""

    def add(weight: torch.Tensor) -> None:
        if living := optimizer():
            living.add_gradient(name, weight)

    return add


def _take_residual(master: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The master's bits minus the bf16 weight's, as int16.

    A master exactly between two bf16 values would need one bit more; it is moved by its last bit towards the one that
    it was rounded to, in place.
    """
    bits = master.view(torch.int32)
    ties = (bits & _LOW) == _TIE
    if bool(ties.any()):
        rounded_up = (bits >> 16) & 1  # ties go to the even value
        bits.add_(torch.where(ties, 2 * rounded_up - 1, 0))
    return (bits - _widened(weight)).to(torch.int16)


def _put_residual(master: torch.Tensor, weight: torch.Tensor, residual: torch.Tensor) -> None:
    master.view(torch.int32).copy_(_widened(weight) + residual.to(torch.int32))


def _widened(weight: torch.Tensor) -> torch.Tensor:
    return weight.detach().to(torch.bfloat16).float().view(torch.int32)
