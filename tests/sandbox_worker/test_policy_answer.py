import json
from typing import Any

import pytest

from sandbox_worker.policy_answer import PolicyAnswerError, answered_version, read_chat_completion, read_completion

PROMPT = (5, 6)


def answer(**changes: Any) -> bytes:
    choice = {
        "text": "hi",
        "finish_reason": "stop",
        "token_ids": [7, 2],
        "logprobs": {"token_logprobs": [-0.1, 0.0]},
        "prompt_token_ids": [5, 6],
    }
    body = {"model": "7@3", "choices": [choice | {key: value for key, value in changes.items() if key in choice}]}
    return json.dumps(body | {key: value for key, value in changes.items() if key not in choice}).encode()


def read(data: bytes) -> object:
    return read_completion(data, model="7@3", prompt=PROMPT, max_tokens=4)


def test_a_good_answer_is_kept_exactly() -> None:
    sample = read_completion(answer(), model="7@3", prompt=PROMPT, max_tokens=4)
    assert (sample.ids, sample.logprobs, sample.version, sample.finish_reason) == ((7, 2), (-0.1, 0.0), 3, "stop")
    assert (sample.prompt_tokens, sample.sampled_tokens) == (2, 2)


@pytest.mark.parametrize(
    "changes",
    [
        {"token_ids": [7, 2.0]},
        {"token_ids": ["7", "2"]},
        {"token_ids": [7, -2]},
        {"token_ids": [7, True]},
        {"token_ids": None},
        {"token_ids": [1, 2, 3, 4, 5], "logprobs": {"token_logprobs": [-1.0] * 5}},
        {"logprobs": None},
        {"logprobs": {"token_logprobs": [-0.1]}},
        {"logprobs": {"token_logprobs": [-0.1, None]}},
        {"logprobs": {"token_logprobs": [-0.1, 0.2]}},
        {"logprobs": {"token_logprobs": [-0.1, float("nan")]}},
        {"logprobs": {"token_logprobs": [-0.1, float("-inf")]}},
        {"finish_reason": "abort"},
        {"finish_reason": None},
        {"prompt_token_ids": [5, 7]},
        {"choices": []},
        {"model": "8@3"},
        {"model": "other"},
    ],
)
def test_a_wrong_answer_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(PolicyAnswerError):
        read(answer(**changes))


@pytest.mark.parametrize("data", [b"", b"{", b"<html>", b"[]"])
def test_no_answer_is_refused(data: bytes) -> None:
    with pytest.raises(PolicyAnswerError):
        read(data)


def test_another_version_of_the_same_run_is_recorded() -> None:
    assert answered_version("7@4", "7@3") == 4
    assert answered_version("large", "large") is None
    assert answered_version("org/large@main", "org/large@main") is None


def test_a_chat_answer_counts_its_tokens() -> None:
    choice = {"message": {"content": None}, "finish_reason": "stop"}
    body = {"model": "large", "choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 4}}
    sample = read_chat_completion(json.dumps(body).encode(), model="large")
    assert (sample.text, sample.prompt_tokens, sample.sampled_tokens, sample.ids) == ("", 9, 4, ())
