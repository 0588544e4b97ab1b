from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from learner.serve.forward import decode, new_memory, prefill
from learner.serve.weights import WeightsError, load_weights
from tests.learner.tiny import tiny_policy

IDS = (5, 9, 200, 31, 77, 12, 8, 300, 41, 6)


@torch.inference_mode()
def test_reading_at_once_in_parts_or_one_by_one_gives_the_logits_of_transformers(tmp_path: Path) -> None:
    folder = tiny_policy(tmp_path / "policy")
    weights, _ = load_weights(folder, torch.float32)
    reference = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    expected = reference(torch.tensor([IDS])).logits[0]
    memory = new_memory(weights, 1, len(IDS))
    torch.testing.assert_close(prefill(weights, torch.tensor(IDS[:4]), memory, 0), expected[3], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(prefill(weights, torch.tensor(IDS[4:8]), memory, 4), expected[7], rtol=1e-4, atol=1e-4)
    for place in (8, 9):
        logits = decode(weights, torch.tensor([IDS[place]]), torch.tensor([place]), memory)
        torch.testing.assert_close(logits[0], expected[place], rtol=1e-4, atol=1e-4)


@torch.inference_mode()
def test_rows_of_different_length_do_not_see_each_other(tmp_path: Path) -> None:
    weights, _ = load_weights(tiny_policy(tmp_path / "policy"), torch.float32)
    together = new_memory(weights, 4, 16)
    together.fill_(7.0)
    alone = []
    for slot, length in enumerate((3, 9, 5)):
        memory = new_memory(weights, 1, 16)
        prefill(weights, torch.tensor(IDS[:length]), memory, 0)
        together[:, :, slot, :length] = memory[:, :, 0, :length]
        alone.append(decode(weights, torch.tensor([50 + slot]), torch.tensor([length]), memory)[0])
    logits = decode(weights, torch.tensor([50, 51, 52]), torch.tensor([3, 9, 5]), together)
    torch.testing.assert_close(logits, torch.stack(alone), rtol=1e-5, atol=1e-5)


@pytest.fixture
def garbage_in_fresh_memory() -> Iterator[None]:
    """torch fills memory that nobody has written with NaN."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@torch.inference_mode()
def test_what_lay_in_fresh_memory_reaches_no_logits(tmp_path: Path, garbage_in_fresh_memory: None) -> None:
    assert torch.empty(1).isnan().all()
    weights, _ = load_weights(tiny_policy(tmp_path / "policy"), torch.float32)
    together = new_memory(weights, 2, 16)
    logits = decode(weights, torch.tensor([50, 51]), torch.tensor([0, 9]), together)
    assert logits.isfinite().all()


def test_a_model_of_another_kind_is_refused(tmp_path: Path) -> None:
    folder = tiny_policy(tmp_path / "policy")
    config = (folder / "config.json").read_text().replace('"model_type": "llama"', '"model_type": "qwen2"')
    (folder / "config.json").write_text(config)
    with pytest.raises(WeightsError, match="qwen2"):
        load_weights(folder, torch.float32)
