import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learner.serve.sampler import draw


def one(logits: torch.Tensor, temperature: float, uniform: float) -> tuple[int, float]:
    ids, logprobs = draw(logits[None], torch.tensor([temperature]), torch.tensor([uniform], dtype=torch.float64))
    return int(ids[0]), float(logprobs[0])


@given(st.integers(1, 700), st.floats(0, 1, exclude_max=True), st.floats(0.3, 3), st.integers(0, 1000))
def test_a_draw_inverts_the_distribution(vocab: int, uniform: float, temperature: float, seed: int) -> None:
    logits = 4 * torch.randn(vocab, generator=torch.Generator().manual_seed(seed))
    id_, logprob = one(logits, temperature, uniform)
    logprobs = (logits.double() / temperature).log_softmax(-1)
    assert logprob == pytest.approx(logprobs[id_].item(), abs=1e-4)
    running = logprobs.exp().cumsum(-1)
    assert (running[id_ - 1].item() if id_ else 0) <= uniform + 1e-6
    assert running[id_].item() >= uniform - 1e-6


@given(st.integers(1, 700), st.integers(0, 1000))
def test_an_id_of_probability_zero_is_never_drawn(vocab: int, seed: int) -> None:
    logits = torch.full((vocab,), -math.inf)
    possible = seed % vocab
    logits[possible] = 0
    for uniform in (0.0, 0.5, 1 - 2**-53):
        assert one(logits, 1.0, uniform) == (possible, 0)


def test_temperature_zero_takes_the_likeliest_with_its_probability_at_temperature_one() -> None:
    logits = torch.tensor([0.0, 2.0, 1.0])
    id_, logprob = one(logits, 0.0, 0.01)
    assert id_ == 1
    assert logprob == pytest.approx(logits.log_softmax(-1)[1].item())


def test_a_row_is_drawn_alone_as_it_is_in_company() -> None:
    logits = torch.randn(5, 600)
    uniforms = torch.rand(5, dtype=torch.float64)
    ids, logprobs = draw(logits, torch.full((5,), 0.7), uniforms)
    for row in range(5):
        assert one(logits[row], 0.7, uniforms[row].item()) == (ids[row].item(), logprobs[row].item())


def test_frequencies_are_the_probabilities() -> None:
    logits = torch.tensor([0.0, 1.0, -1.0, 2.0])
    uniforms = (torch.arange(20_000).double() + 0.5) / 20_000
    ids, _ = draw(logits.expand(20_000, 4), torch.ones(20_000), uniforms)
    frequencies = torch.bincount(ids, minlength=4) / 20_000
    torch.testing.assert_close(frequencies, logits.softmax(-1), atol=1e-4, rtol=0)
