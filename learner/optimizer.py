"""AdamW on fp32 master weights behind a bf16 network, with gradients summed in fp32.

The state fits into six bytes a weight and comes back exactly: see `compact`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from learner.errors import LearnerError
from learner.messages import StepSettings

_TIE = 0x8000
_LOW = 0xFFFF


class NotFiniteError(LearnerError):
    """The gradient holds NaN or infinity; no weight was changed."""


@dataclass(frozen=True)
class CompactState:
    """Beside the network's own bf16 weights, all that the next step depends on."""

    tensors: dict[str, torch.Tensor]
    """<name>.residual (int16), <name>.mean (bf16), <name>.square (bf16)."""
    steps: int


class MasterAdamW:
    def __init__(self, network: torch.nn.Module) -> None:
        self._named = dict(network.named_parameters())
        self._masters = {name: weight.detach().float().clone() for name, weight in self._named.items()}
        self._adam = torch.optim.AdamW(self._masters.values(), lr=0.0, fused=True)

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

    def add_gradients(self) -> None:
        """Move the network's gradients into the fp32 sums."""
        for name, weight in self._named.items():
            if weight.grad is None:
                continue
            master = self._masters[name]
            if master.grad is None:
                master.grad = weight.grad.float()
            else:
                master.grad.add_(weight.grad)
            weight.grad = None

    def drop_gradients(self) -> None:
        for name, weight in self._named.items():
            weight.grad = None
            self._masters[name].grad = None

    def step(self, settings: StepSettings) -> float:
        """Update the weights; the gradient's norm before clipping. Raises NotFiniteError and changes nothing."""
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

    @torch.no_grad()
    def compact(self) -> CompactState:
        """The state, rounded to what it stores. The live state is rounded with it: going on equals coming back."""
        tensors: dict[str, torch.Tensor] = {}
        for name, master in self._masters.items():
            tensors[f"{name}.residual"] = _take_residual(master, self._named[name])
            for part, moment in self._moments(master):
                rounded = moment.to(torch.bfloat16)
                moment.copy_(rounded)
                tensors[f"{name}.{part}"] = rounded
        return CompactState(tensors, self.steps)

    @torch.no_grad()
    def restore(self, state: CompactState) -> None:
        """Continue from a compact state of the weights that the network holds."""
        for name, master in self._masters.items():
            _put_residual(master, self._named[name], state.tensors[f"{name}.residual"])
            self._adam.state[master] = {
                "step": torch.tensor(float(state.steps)),
                "exp_avg": state.tensors[f"{name}.mean"].float(),
                "exp_avg_sq": state.tensors[f"{name}.square"].float(),
            }

    def _moments(self, master: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
        state = self._adam.state.get(master)
        for part, key in (("mean", "exp_avg"), ("square", "exp_avg_sq")):
            yield part, state[key] if state else torch.zeros_like(master)


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
