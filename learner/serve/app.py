"""Routes of the embedded policy server."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from learner.serve import answers
from learner.serve.engine import Ask, Engine, EngineError, Sampled, Ticket
from learner.serve.protocol import (
    ApiError,
    ChatRequest,
    CompletionRequest,
    PolicyRequest,
    check_sampling,
    checked_logprobs,
    decode,
)
from learner.serve.shelf import Served, Shelf
from learner.serve.text import TemplateError

_CLIENT_CLOSED = 499
_DEFAULT_MAX_TOKENS = 16


def _json(body: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status, media_type="application/json")


class Api:
    def __init__(self, shelf: Shelf, engine: Engine) -> None:
        self._shelf = shelf
        self._engine = engine

    async def health(self, request: Request) -> Response:
        return Response(status_code=200)

    async def models(self, request: Request) -> Response:
        return _json({"object": "list", "data": [answers.model_card(served) for served in self._shelf.all()]})

    async def metrics(self, request: Request) -> Response:
        return _json(self._engine.report() | {"policies": [served.policy.name for served in self._shelf.all()]})

    async def load_policy(self, request: Request) -> Response:
        asked = decode(await request.body(), PolicyRequest)
        served, loaded = await self._shelf.load(asked.name, asked.prefix, asked.digest)
        return _json(answers.model_card(served) | {"loaded": loaded})

    async def drop_policy(self, request: Request) -> Response:
        return _json({"dropped": self._shelf.drop(request.path_params["name"])})

    async def complete(self, request: Request) -> Response:
        asked = decode(await request.body(), CompletionRequest)
        check_sampling(asked)
        logprobs = checked_logprobs(asked)
        served = self._shelf.find(asked.model)
        prompts = _prompts(asked.prompt, served)
        rows = await self._sample(request, served, asked, prompts, asked.max_tokens or _DEFAULT_MAX_TOKENS)
        return _json(answers.completion(served, rows, len(prompts), logprobs, asked.return_token_ids))

    async def chat(self, request: Request) -> Response:
        asked = decode(await request.body(), ChatRequest)
        check_sampling(asked)
        served = self._shelf.find(asked.model)
        try:
            text = served.text.render([{"role": turn.role, "content": turn.content} for turn in asked.messages])
        except TemplateError as error:
            raise ApiError(422, str(error), param="messages", code="invalid_value") from error
        prompt = served.text.encode(text)
        room = served.policy.weights.shape.context - len(prompt)
        rows = await self._sample(
            request, served, asked, (prompt,), asked.max_completion_tokens or asked.max_tokens or max(1, room)
        )
        return _json(answers.chat(served, rows, asked.logprobs, asked.return_token_ids))

    async def _sample(
        self,
        request: Request,
        served: Served,
        asked: CompletionRequest | ChatRequest,
        prompts: tuple[tuple[int, ...], ...],
        max_tokens: int,
    ) -> list[Sampled]:
        shape = served.policy.weights.shape
        for prompt in prompts:
            _check_prompt(prompt, max_tokens, shape.context, shape.vocab)
        stop = frozenset(asked.stop_token_ids) | (frozenset() if asked.ignore_eos else shape.eos)
        seed = secrets.token_hex(8) if asked.seed is None else str(asked.seed)
        ask = Ask(prompts, asked.n, max_tokens, asked.temperature, seed, stop)
        ticket = self._engine.submit(served.policy, ask)
        try:
            return await _answer_or_disconnect(request, ticket)
        except EngineError as error:
            raise ApiError(500, str(error), code="engine_error") from error


def _prompts(prompt: str | list[int | str | list[int]], served: Served) -> tuple[tuple[int, ...], ...]:
    if isinstance(prompt, str):
        return (served.text.encode(prompt),)
    ids = tuple(one for one in prompt if isinstance(one, int))
    if ids and len(ids) < len(prompt):
        raise ApiError(422, "prompt mixes ids with whole prompts", param="prompt", code="invalid_value")
    if ids or not prompt:
        return (ids,)
    return tuple(_one_prompt(one, served) for one in prompt if not isinstance(one, int))


def _one_prompt(prompt: str | list[int], served: Served) -> tuple[int, ...]:
    return served.text.encode(prompt) if isinstance(prompt, str) else tuple(prompt)


def _check_prompt(prompt: tuple[int, ...], max_tokens: int, context: int, vocab: int) -> None:
    if not prompt:
        raise ApiError(422, "prompt must hold at least one token", param="prompt", code="invalid_value")
    if not all(0 <= id_ < vocab for id_ in prompt):
        raise ApiError(422, f"prompt holds ids outside 0..{vocab - 1}", param="prompt", code="invalid_value")
    if len(prompt) + max_tokens > context:
        message = (
            f"This model's maximum context length is {context} tokens. However, you requested "
            f"{len(prompt) + max_tokens} tokens ({len(prompt)} in the prompt, {max_tokens} for the completion)."
        )
        raise ApiError(400, message, param="max_tokens", code="context_length_exceeded")


async def _answer_or_disconnect(request: Request, ticket: Ticket) -> list[Sampled]:
    """The body was read whole, so the next message of the client can only be its leaving."""
    answer = asyncio.wrap_future(ticket.answer)
    leaving = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait((answer, leaving), return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
    except asyncio.CancelledError as error:  # only a server that stops cancels its requests
        raise ApiError(503, "the server is stopping", code="stopping") from error
    finally:
        leaving.cancel()
        ticket.cancel()  # of a finished ticket this changes nothing
    raise ApiError(_CLIENT_CLOSED, "the client left", code="client_closed")


async def _api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return _json(error.body(), error.status)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json(ApiError(error.status_code, error.detail).body(), error.status_code)


async def _crash(request: Request, error: Exception) -> Response:
    return _json(ApiError(500, f"{type(error).__name__}: {error}").body(), 500)


def make_app(shelf: Shelf, engine: Engine) -> Starlette:
    api = Api(shelf, engine)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        engine.start()
        yield
        await asyncio.to_thread(engine.stop)  # answers of cancelled requests still go out

    routes: tuple[tuple[str, str, Callable[[Request], Awaitable[Response]]], ...] = (
        ("GET", "/health", api.health),
        ("GET", "/metrics", api.metrics),
        ("GET", "/v1/models", api.models),
        ("POST", "/v1/completions", api.complete),
        ("POST", "/v1/chat/completions", api.chat),
        ("POST", "/v1/policies", api.load_policy),
        ("DELETE", "/v1/policies/{name}", api.drop_policy),
    )
    return Starlette(
        routes=[Route(path, endpoint, methods=[method]) for method, path, endpoint in routes],
        exception_handlers={ApiError: _api_error, HTTPException: _http_error, Exception: _crash},
        lifespan=lifespan,
    )
