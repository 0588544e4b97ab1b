"""What a policy server answers, checked strictly: a sample with a wrong id or number must never be learned from."""

import math
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from sandbox_worker.errors import SandboxWorkerError

_Answer = TypeVar("_Answer")
_ROUNDING = 1e-6
"""A log-probability may exceed 0 by this much: softmax in single precision."""


class PolicyAnswerError(SandboxWorkerError):
    """The server answered something that cannot be used; says what."""


@dataclass(frozen=True)
class Sample:
    """One checked answer."""

    version: int | None
    finish_reason: str
    text: str
    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    prompt_tokens: int = 0
    sampled_tokens: int = 0


class _Logprobs(msgspec.Struct):
    token_logprobs: list[float | None]


class _Choice(msgspec.Struct):
    finish_reason: str | None
    text: str = ""
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None
    logprobs: _Logprobs | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int | None = 0


class _Completion(msgspec.Struct):
    model: str
    choices: list[_Choice]
    usage: _Usage | None = None


class _ChatMessage(msgspec.Struct):
    content: str | None = None


class _ChatChoice(msgspec.Struct):
    message: _ChatMessage
    finish_reason: str | None


class _ChatCompletion(msgspec.Struct):
    model: str
    choices: list[_ChatChoice]
    usage: _Usage | None = None


def answered_version(answered: str, requested: str) -> int | None:
    """The policy version in a served name '<run>@<version>'; None for a name that is not versioned.

    Raises PolicyAnswerError if another policy answered.
    """
    run, _, version = answered.rpartition("@")
    if answered != requested and (not run or run != requested.rpartition("@")[0]):
        raise PolicyAnswerError(f"asked for {requested!r}, answered by {answered!r}")
    return int(version) if version.isascii() and version.isdigit() else None


def read_completion(body: bytes, *, model: str, prompt: tuple[int, ...], max_tokens: int) -> Sample:
    """Raises PolicyAnswerError."""
    answer = _decode(body, _Completion)
    if len(answer.choices) != 1:
        raise PolicyAnswerError(f"expected one choice, got {len(answer.choices)}")
    choice = answer.choices[0]
    if choice.token_ids is None or choice.logprobs is None:
        raise PolicyAnswerError("the answer has no token_ids or no logprobs; the server must return both")
    if choice.prompt_token_ids is not None and tuple(choice.prompt_token_ids) != prompt:
        raise PolicyAnswerError("the server read other prompt ids than were sent")
    if len(choice.token_ids) > max_tokens or any(token < 0 for token in choice.token_ids):
        raise PolicyAnswerError(f"token_ids holds a negative id or more than {max_tokens} ids")
    return Sample(
        version=answered_version(answer.model, model),
        finish_reason=_finish_reason(choice.finish_reason),
        text=choice.text,
        ids=tuple(choice.token_ids),
        logprobs=_checked_logprobs(choice.logprobs.token_logprobs, len(choice.token_ids)),
        prompt_tokens=len(prompt),
        sampled_tokens=len(choice.token_ids),
    )


def read_chat_completion(body: bytes, *, model: str) -> Sample:
    """Raises PolicyAnswerError."""
    answer = _decode(body, _ChatCompletion)
    if len(answer.choices) != 1:
        raise PolicyAnswerError(f"expected one choice, got {len(answer.choices)}")
    choice, usage = answer.choices[0], answer.usage or _Usage()
    return Sample(
        version=answered_version(answer.model, model),
        finish_reason=_finish_reason(choice.finish_reason),
        text=choice.message.content or "",
        prompt_tokens=usage.prompt_tokens,
        sampled_tokens=usage.completion_tokens or 0,
    )


def _decode(body: bytes, kind: type[_Answer]) -> _Answer:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise PolicyAnswerError(f"unreadable answer: {error}") from error


def _finish_reason(reason: str | None) -> str:
    if reason not in ("stop", "length"):
        raise PolicyAnswerError(f"unknown finish_reason {reason!r}")
    return reason


def _checked_logprobs(values: list[float | None], ids: int) -> tuple[float, ...]:
    if len(values) != ids:
        raise PolicyAnswerError(f"{ids} token ids but {len(values)} logprobs")
    numbers = [value for value in values if value is not None and math.isfinite(value) and value <= _ROUNDING]
    if len(numbers) != ids:
        raise PolicyAnswerError("a logprob is missing, not finite, or above 0")
    return tuple(min(number, 0.0) for number in numbers)
