import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from learner.messages import StepSettings
from learner.optimizer import PARTS, CompactState, MasterAdamW, NotFiniteError

SETTINGS = StepSettings(learning_rate=1e-3)


def layer(seed: int = 0) -> torch.nn.Linear:
    torch.manual_seed(seed)
    return torch.nn.Linear(16, 16, bias=False, dtype=torch.bfloat16)


def learn(network: torch.nn.Linear, optimizer: MasterAdamW, seed: int) -> None:
    torch.manual_seed(seed)
    network(torch.randn(4, 16, dtype=torch.bfloat16)).float().square().mean().backward()
    optimizer.step(SETTINGS)


def kept(optimizer: MasterAdamW) -> CompactState:
    """As it would be read back from its files."""
    state = optimizer.compact()
    parts = {part: state.read(part) for part in PARTS}
    return CompactState(parts.__getitem__, state.steps)


def master(optimizer: MasterAdamW) -> torch.Tensor:
    return optimizer._masters["weight"]  # noqa: SLF001


def test_a_compact_state_comes_back_bit_for_bit() -> None:
    network = layer()
    optimizer = MasterAdamW(network)
    for seed in range(3):
        learn(network, optimizer, seed)
    state = kept(optimizer)
    other = layer(1)
    other.load_state_dict(network.state_dict())
    back = MasterAdamW(other)
    back.restore(state)
    for seed in range(3, 6):
        learn(network, optimizer, seed)
        learn(other, back, seed)
    assert torch.equal(network.weight, other.weight)
    assert torch.equal(master(optimizer), master(back))
    assert back.steps == optimizer.steps == 6


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=64))
def test_every_finite_master_survives_within_its_last_bit(bits: list[int]) -> None:
    values = torch.tensor(bits, dtype=torch.int32).view(torch.float32)
    values = values[values.isfinite() & values.to(torch.bfloat16).isfinite()][None].clone()
    assume(values.numel())
    network = torch.nn.Linear(values.shape[1], 1, bias=False, dtype=torch.bfloat16)
    optimizer = MasterAdamW(network)
    with torch.no_grad():
        network.weight.copy_(values)
        master(optimizer).copy_(values)
    state = kept(optimizer)
    live = master(optimizer).clone()
    assert (live.view(torch.int32) - values.view(torch.int32)).abs().max().item() <= 1
    assert torch.equal(live.to(torch.bfloat16), network.weight)
    back = MasterAdamW(network)
    back.restore(state)
    assert torch.equal(master(back).view(torch.int32), live.view(torch.int32))


def test_gradients_are_summed_in_fp32() -> None:
    network = layer()
    optimizer = MasterAdamW(network)
    for value in (1.0, 2.0**-10):
        torch.autograd.backward(network.weight, torch.full_like(network.weight, value))
    assert network.weight.grad is None
    norm = optimizer.step(SETTINGS)
    assert norm == pytest.approx(16 * (1 + 2.0**-10), rel=1e-6)


def test_a_gradient_that_is_not_finite_changes_no_weight() -> None:
    network = layer()
    optimizer = MasterAdamW(network)
    before = network.weight.clone()
    torch.autograd.backward(network.weight, torch.full_like(network.weight, torch.nan))
    with pytest.raises(NotFiniteError, match="nan"):
        optimizer.step(SETTINGS)
    assert torch.equal(before, network.weight)
    assert master(optimizer).grad is None


def test_updates_smaller_than_bf16_add_up() -> None:
    network = layer()
    optimizer = MasterAdamW(network)
    tiny = StepSettings(learning_rate=1e-5)
    before = network.weight.clone()
    for _ in range(300):
        torch.autograd.backward(network.weight, torch.ones_like(network.weight))
        optimizer.step(tiny)
    torch.testing.assert_close(network.weight.float(), before.float() - 3e-3, atol=1e-3, rtol=0)


def test_a_restart_equals_an_optimizer_made_anew() -> None:
    network = layer()
    optimizer = MasterAdamW(network)
    learn(network, optimizer, 0)
    other = layer(1)
    other.load_state_dict(network.state_dict())
    fresh = MasterAdamW(other)
    optimizer.restart()
    for seed in range(1, 3):
        learn(network, optimizer, seed)
        learn(other, fresh, seed)
    assert torch.equal(master(optimizer), master(fresh))
    assert optimizer.steps == fresh.steps == 2
