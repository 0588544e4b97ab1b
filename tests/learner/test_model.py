import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from learner.manifest import DamagedFileError, check_file, file_sha256, read_manifest
from learner.model import bundled_gguf, convert, make
from tests.learner.serve.server import running_server

CACHE = Path(tempfile.gettempdir()) / "assay-tests-model"
"""Kept between sessions: the conversion is checked by its digest each time."""


@pytest.fixture(scope="module")
def smol() -> Path:
    make("bundled", CACHE / "policies/smol")
    return CACHE / "policies/smol"


def test_the_bundled_model_becomes_one_known_file(smol: Path) -> None:
    manifest = read_manifest(smol)
    assert manifest is not None
    assert manifest.weights_sha256 == "7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b"
    before = (smol / "model.safetensors").stat().st_mtime_ns
    make("bundled", smol)
    assert (smol / "model.safetensors").stat().st_mtime_ns == before


def test_a_damaged_source_is_named_with_how_to_get_it_again(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    with pytest.raises(DamagedFileError, match=r"model\.gguf is damaged: expected sha256 00, found .* pip install"):
        check_file(path, "00", "Delete it and: pip install")


def test_a_file_that_is_no_model_gives_a_plain_error(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"not a model at all, but long enough to be looked at")
    command = [sys.executable, "-m", "learner.model", str(path), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "cannot be read as GGUF" in done.stderr
    assert list(tmp_path.iterdir()) == [path]


def test_a_damaged_conversion_is_made_again(smol: Path, tmp_path: Path) -> None:
    target = tmp_path / "smol"
    shutil.copytree(smol, target)
    (target / "model.safetensors").write_bytes(b"")
    assert convert(bundled_gguf(CACHE / "policies/.downloads"), target) == read_manifest(smol)
    assert file_sha256(target / "model.safetensors") == file_sha256(smol / "model.safetensors")


def test_digits_stand_alone_and_text_comes_back(smol: Path) -> None:
    tokenizer = Tokenizer.from_file(str(smol / "tokenizer.json"))
    text = "wc -l 12345 file_2024.txt\n    return x==10 <|im_end|>\n"
    encoded = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(encoded.ids, skip_special_tokens=False) == text
    assert [token for token in encoded.tokens if token.strip("Ġ").isdigit()] == list("12345202410")
    assert 2 in encoded.ids


def logprobs_of(folder: Path, dtype: torch.dtype, choices: list[dict[str, Any]]) -> torch.Tensor:
    """What transformers says of the sampled ids, all choices in one row."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    found = []
    for choice in choices:
        prompt, ids = choice["prompt_token_ids"], choice["token_ids"]
        with torch.inference_mode():
            logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1].float()
        found.append(logits.log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0])
    return torch.cat(found)


@pytest.mark.process
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_served_log_probabilities_are_those_of_transformers(smol: Path, dtype: str) -> None:
    question = {"model": "1@0", "messages": [{"role": "user", "content": "What is the capital of France?"}]}
    with running_server(CACHE, "--dtype", dtype) as server:
        server.load("1@0", "policies/smol").raise_for_status()
        greedy = server.client.post("/v1/chat/completions", json=question | {"temperature": 0, "max_tokens": 12}).json()
        choices = server.complete("1@0", "Tell me about dogs.", max_tokens=24, n=3, seed=5)["choices"]
    assert "Paris" in greedy["choices"][0]["message"]["content"]
    served = torch.tensor([value for choice in choices for value in choice["logprobs"]["token_logprobs"]])
    exact = logprobs_of(smol, torch.float32, choices)
    gap = (served - exact).abs()
    if dtype == "float32":
        assert gap.max().item() < 2e-3
    else:  # rounding to bf16 costs what it costs transformers
        assert gap.mean().item() < 1.3 * (logprobs_of(smol, torch.bfloat16, choices) - exact).abs().mean().item()
