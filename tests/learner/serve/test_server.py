import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import torch
from transformers import AutoModelForCausalLM

from learner.manifest import file_sha256
from tests.learner.serve.server import Server, running_server
from tests.learner.tiny import EOS, tiny_policy

pytestmark = pytest.mark.process

PROMPT = [1, 50, 60, 70, 80, 90, 100, 110, 120, 130]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    store = tmp_path_factory.mktemp("store")
    for seed in range(4):
        tiny_policy(store / f"runs/12/{seed}", seed=seed)
    with running_server(store, "--dtype", "float32") as running:
        running.load("12@0", "runs/12/0").raise_for_status()
        yield running


def reference_logprobs(folder: Path, prompt: list[int], ids: list[int], temperature: float = 1.0) -> torch.Tensor:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.inference_mode():
        logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
    logprobs: torch.Tensor = (logits / temperature).log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0]
    return logprobs


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_log_probabilities_are_those_of_the_whole_distribution_at_the_sampling_temperature(
    server: Server, temperature: float
) -> None:
    answer = server.complete("12@0", PROMPT, max_tokens=20, temperature=temperature, seed=3, ignore_eos=True)
    choice = answer["choices"][0]
    assert choice["prompt_token_ids"] == PROMPT
    expected = reference_logprobs(server.store / "runs/12/0", PROMPT, choice["token_ids"], temperature)
    found = torch.tensor(choice["logprobs"]["token_logprobs"])
    torch.testing.assert_close(found, expected, atol=2e-3, rtol=0)


def test_an_answer_names_the_version_that_sampled_it_and_counts_its_ids(server: Server) -> None:
    answer = server.complete("12@0", PROMPT, max_tokens=5, n=3, seed=1, ignore_eos=True)
    assert answer["model"] == "12@0"
    assert answer["usage"] == {"prompt_tokens": 10, "completion_tokens": 15, "total_tokens": 25}
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]


def test_the_same_seed_gives_the_same_ids_alone_and_in_company(server: Server) -> None:
    def ask(seed: int) -> list[list[int]]:
        answer = server.complete("12@0", PROMPT[: 3 + seed % 7], max_tokens=12, n=2, seed=seed)
        return [choice["token_ids"] for choice in answer["choices"]]

    alone = [ask(seed) for seed in range(12)]
    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(ask, range(12))) == alone
    assert len({tuple(map(tuple, ids)) for ids in alone}) > 6


def test_the_ending_id_is_returned_and_ends_the_row(server: Server) -> None:
    first = server.complete("12@0", PROMPT, max_tokens=9, temperature=0, ignore_eos=True)["choices"][0]["token_ids"]
    stop = first[4]
    choice = server.complete("12@0", PROMPT, max_tokens=9, temperature=0, stop_token_ids=[stop])["choices"][0]
    assert choice["finish_reason"] == "stop"
    assert choice["token_ids"] == first[: first.index(stop) + 1]
    assert len(choice["logprobs"]["token_logprobs"]) == len(choice["token_ids"])
    assert EOS not in choice["token_ids"][:-1]


def test_several_prompts_are_answered_in_their_order(server: Server) -> None:
    prompts = [PROMPT, PROMPT[:4], PROMPT[2:]]
    answer = server.complete("12@0", prompts, max_tokens=2, n=2)
    assert [choice["prompt_token_ids"] for choice in answer["choices"]] == [p for p in prompts for _ in range(2)]


def test_chat_uses_the_policys_own_template(server: Server) -> None:
    body = {"model": "12@0", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3, "return_token_ids": True}
    answer = server.client.post("/v1/chat/completions", json=body | {"logprobs": True}).json()
    rendered = server.complete("12@0", "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n", max_tokens=1)
    assert answer["prompt_token_ids"] == rendered["choices"][0]["prompt_token_ids"]
    choice = answer["choices"][0]
    assert len(choice["logprobs"]["content"]) == len(choice["token_ids"]) <= 3
    assert choice["message"]["role"] == "assistant"


@pytest.mark.parametrize(
    ("change", "status", "param", "code"),
    [
        ({"model": "12@99"}, 404, "model", "model_not_found"),
        ({"top_p": 0.9}, 422, "top_p", "unsupported_value"),
        ({"top_k": 5}, 422, "top_k", "unsupported_value"),
        ({"logprobs": 3}, 422, "logprobs", "unsupported_value"),
        ({"stream": True}, 422, "stream", "unsupported_value"),
        ({"n": 0}, 422, "n", "invalid_value"),
        ({"temperature": -1}, 422, "temperature", "invalid_value"),
        ({"max_tokens": "many"}, 422, "max_tokens", "invalid_value"),
        ({"best_of": 3}, 422, "best_of", "invalid_value"),
        ({"prompt": []}, 422, "prompt", "invalid_value"),
        ({"prompt": [99999]}, 422, "prompt", "invalid_value"),
        ({"prompt": [1, [2]]}, 422, "prompt", "invalid_value"),
        ({"max_tokens": 250}, 400, "max_tokens", "context_length_exceeded"),
    ],
)
def test_what_is_refused_is_named(
    server: Server, change: dict[str, object], status: int, param: str, code: str
) -> None:
    body: dict[str, object] = {"model": "12@0", "prompt": PROMPT, "max_tokens": 2}
    assert server.refuse("/v1/completions", body | change) == (status, param, code)


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_a_chat_cannot_ask_for_less_than_one_token(server: Server, field: str) -> None:
    body: dict[str, object] = {"model": "12@0", "messages": [{"role": "user", "content": "hi"}], field: -3}
    assert server.refuse("/v1/chat/completions", body) == (422, field, "invalid_value")


def test_loading_is_idempotent_and_a_name_keeps_its_weights(server: Server) -> None:
    assert server.load("12@0", "runs/12/0").json()["loaded"] is False
    assert server.refuse("/v1/policies", {"name": "12@0", "prefix": "runs/12/1"}) == (409, "name", "name_taken")


def test_weights_are_checked_against_their_digest(server: Server) -> None:
    body: dict[str, object] = {"name": "12@1", "prefix": "runs/12/1", "digest": "0" * 64}
    assert server.refuse("/v1/policies", body) == (422, "digest", "weights_damaged")
    digest = file_sha256(server.store / "runs/12/1/model.safetensors")
    assert server.load("12@1", "runs/12/1", digest=digest).json()["digest"] == digest
    assert server.refuse("/v1/policies", {"name": "x", "prefix": "no/such"}) == (404, "prefix", "weights_not_found")


def test_versions_are_sampled_side_by_side_and_the_least_recently_used_goes(server: Server) -> None:
    for version in range(4):
        server.load(f"12@{version}", f"runs/12/{version}").raise_for_status()
        server.complete(f"12@{version}", PROMPT, max_tokens=1)
        if version == 2:
            server.complete("12@1", PROMPT, max_tokens=1)
    names = {card["id"] for card in server.client.get("/v1/models").json()["data"]}
    assert len(names) == 3
    assert "12@0" not in names
    server.client.delete("/v1/policies/12@3").raise_for_status()
    assert server.refuse("/v1/completions", {"model": "12@3", "prompt": PROMPT})[2] == "model_not_found"
    server.load("12@0", "runs/12/0").raise_for_status()


def test_equal_prompts_are_read_once(server: Server) -> None:
    prompt = [7, *PROMPT, *PROMPT, 9]
    before = server.metrics()
    server.complete("12@0", prompt, max_tokens=2, n=4)
    after = server.metrics()
    assert after["prompt_tokens"] - before["prompt_tokens"] == 4 * len(prompt)
    assert after["prompt_tokens_reused"] - before["prompt_tokens_reused"] >= 3 * len(prompt)


def test_a_client_that_leaves_stops_its_sampling(server: Server) -> None:
    before = server.metrics()["cancelled_rows"]
    leaving = httpx.Client(base_url=server.url, timeout=0.2)
    body = {"model": "12@0", "prompt": PROMPT, "max_tokens": 240, "n": 100, "ignore_eos": True}
    with pytest.raises(httpx.TimeoutException):
        leaving.post("/v1/completions", json=body)
    leaving.close()
    give_up = time.monotonic() + 20
    while server.metrics()["cancelled_rows"] == before and time.monotonic() < give_up:
        time.sleep(0.05)
    assert server.metrics()["cancelled_rows"] > before


def test_a_version_in_use_is_not_put_away_and_finishes_what_it_began(tmp_path: Path) -> None:
    for version in range(2):
        tiny_policy(tmp_path / f"runs/12/{version}", seed=version, context=8192)
    with running_server(tmp_path, "--versions", "1") as running, ThreadPoolExecutor(1) as pool:
        running.load("12@0", "runs/12/0").raise_for_status()
        answer = pool.submit(running.complete, "12@0", PROMPT, max_tokens=1500, n=2, ignore_eos=True)
        while not running.metrics()["steps"]:
            time.sleep(0.01)
        refused = running.refuse("/v1/policies", {"name": "12@1", "prefix": "runs/12/1"})
        assert refused == (503, "name", "no_room")
        running.client.delete("/v1/policies/12@0").raise_for_status()
        running.load("12@1", "runs/12/1").raise_for_status()
        assert running.complete("12@1", PROMPT, max_tokens=1)["model"] == "12@1"
        assert answer.result()["usage"]["completion_tokens"] == 3000


def test_a_server_ends_when_told_also_while_it_samples(tmp_path: Path) -> None:
    tiny_policy(tmp_path / "runs/12/0")
    with running_server(tmp_path) as running:
        running.load("12@0", "runs/12/0").raise_for_status()
        body = {"model": "12@0", "prompt": PROMPT, "max_tokens": 240, "n": 128, "ignore_eos": True}
        asking = threading.Thread(target=_ask_in_vain, args=(running.url, body))
        asking.start()
        while not running.metrics()["steps"]:
            time.sleep(0.02)
        running.process.send_signal(signal.SIGTERM)
        running.process.wait(10)
        asking.join()


def _ask_in_vain(url: str, body: dict[str, object]) -> None:
    try:
        httpx.post(f"{url}/v1/completions", json=body, timeout=30)
    except httpx.TransportError:
        return
