"""Requests and errors of the OpenAI-compatible subset, as vLLM speaks it. What is not supported is refused by name."""

from typing import Any, TypeVar

import msgspec

Body = TypeVar("Body", bound=msgspec.Struct)


class ApiError(Exception):
    """Becomes an OpenAI-style error body."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code

    def body(self) -> dict[str, object]:
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


class _Sampling(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    model: str
    max_tokens: int | None = None
    n: int = 1
    temperature: float = 1.0
    seed: int | None = None
    stop_token_ids: list[int] = []
    ignore_eos: bool = False
    return_token_ids: bool = False
    # Accepted at their neutral value only: the learner needs the whole, unshaped distribution.
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    stream: bool = False
    stop: list[str] | None = None
    user: str | None = None


class CompletionRequest(_Sampling):
    prompt: str | list[int | str | list[int]]
    """One text, one prompt of ids, or a list of either."""
    logprobs: int | None = None
    echo: bool = False


class ChatMessage(msgspec.Struct, forbid_unknown_fields=True):
    role: str
    content: str


class ChatRequest(_Sampling):
    messages: list[ChatMessage]
    max_completion_tokens: int | None = None
    logprobs: bool = False
    top_logprobs: int = 0


class PolicyRequest(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    prefix: str
    digest: str = ""
    """SHA-256 of model.safetensors, checked if given."""


_NEUTRAL: dict[str, tuple[object, ...]] = {
    "top_p": (1.0,),
    "top_k": (0, -1),
    "min_p": (0.0,),
    "presence_penalty": (0.0,),
    "frequency_penalty": (0.0,),
    "repetition_penalty": (1.0,),
    "stream": (False,),
    "stop": (None, []),
    "echo": (False,),
    "top_logprobs": (0,),
}


def decode(body: bytes, kind: type[Body]) -> Body:
    """Raises ApiError 422 that names the field."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        text = str(error)
        param = text.split("`")[-2].removeprefix("$.").removeprefix("$") if "`" in text else None
        raise ApiError(422, text, param=param or None, code="invalid_value") from error


def check_sampling(request: CompletionRequest | ChatRequest) -> None:
    """Raises ApiError 422 that names the field."""
    for name, neutral in _NEUTRAL.items():
        if getattr(request, name, neutral[0]) not in neutral:
            raise ApiError(422, f"{name} must be {neutral[0]}", param=name, code="unsupported_value")
    limits: tuple[tuple[str, float, float], ...] = (
        ("n", 1, 128),
        ("max_tokens", 1, 1 << 20),
        ("max_completion_tokens", 1, 1 << 20),
        ("temperature", 0, 100),
    )
    for name, low, high in limits:
        value: Any = getattr(request, name, None)
        if value is not None and not low <= value <= high:
            raise ApiError(422, f"{name} must lie between {low} and {high}", param=name, code="invalid_value")


def checked_logprobs(request: CompletionRequest) -> bool:
    """Whether the sampled ids' log-probabilities are wanted; no others are given."""
    if request.logprobs not in (None, 0):
        message = "logprobs must be 0 (the sampled token only) or absent"
        raise ApiError(422, message, param="logprobs", code="unsupported_value")
    return request.logprobs == 0
