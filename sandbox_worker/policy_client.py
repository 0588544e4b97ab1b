"""Calls of an OpenAI-compatible policy server, from many threads over one event loop.

A server that is away is waited for (a restart takes some seconds); a cancelled attempt drops its call at once.
"""

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Coroutine
from typing import Any

import httpx

from sandbox_worker.attempt import Attempt
from sandbox_worker.errors import SandboxWorkerError

OUTAGE_SECONDS = 60.0
"""Longest wait for a server that does not answer."""
CALL_SECONDS = 300.0
_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 3.0
_SHOWN = 300
"""Characters of an error body kept as evidence."""


class PolicyServerError(SandboxWorkerError):
    """The policy server refused the call, and would again."""


class PolicyAwayError(PolicyServerError):
    """It may answer later: worth another try."""


class ConnectionLostError(PolicyAwayError):
    """Refused, or broken off in the middle of a call."""


class PolicyTimeoutError(PolicyAwayError):
    """No answer in time."""


class OverloadedError(PolicyAwayError):
    """429 or 503."""


class VersionNotLoadedError(PolicyAwayError):
    """The server does not serve this policy version, or does not yet."""


class PolicyClient:
    """One for a worker process. close() ends its loop."""

    def __init__(self, *, connections: int, outage_seconds: float = OUTAGE_SECONDS) -> None:
        self._outage_seconds = outage_seconds
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="policy-client", daemon=True)
        self._thread.start()
        self._http = self._wait(self._open(connections))

    async def _open(self, connections: int) -> httpx.AsyncClient:
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        return httpx.AsyncClient(limits=limits, timeout=None, trust_env=False)

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=5)

    def close(self) -> None:
        if self._loop.is_running():
            self._wait(self._http.aclose())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=5)
            self._loop.close()

    def post(self, url: str, body: dict[str, object], attempt: Attempt) -> tuple[bytes, float]:
        """The answer's body, and the seconds lost to an outage. Raises PolicyServerError, AttemptCancelledError."""
        first_failure: float | None = None
        pause = _FIRST_PAUSE
        while True:
            attempt.check()
            asked_at = time.monotonic()
            try:
                answer = self._call(url, body, attempt)
            except PolicyAwayError:
                first_failure = first_failure if first_failure is not None else asked_at
                if time.monotonic() - first_failure + pause > self._outage_seconds or pause > attempt.seconds_left:
                    raise
            else:
                return answer, 0.0 if first_failure is None else asked_at - first_failure
            attempt.pause(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _call(self, url: str, body: dict[str, object], attempt: Attempt) -> bytes:
        seconds = min(CALL_SECONDS, attempt.seconds_left)
        future = asyncio.run_coroutine_threadsafe(self._exchange(url, body, seconds), self._loop)
        with attempt.holding(future.cancel):
            try:
                return future.result()
            except concurrent.futures.CancelledError:
                attempt.check()
                raise

    async def _exchange(self, url: str, body: dict[str, object], seconds: float) -> bytes:
        try:
            async with asyncio.timeout(seconds):
                response = await self._http.post(url, json=body)
        except TimeoutError as error:
            raise PolicyTimeoutError(f"{url} did not answer in {seconds:.0f} s") from error
        except httpx.TransportError as error:
            raise ConnectionLostError(f"{url}: {type(error).__name__} {error}".rstrip()) from error
        if response.status_code != httpx.codes.OK:
            raise _refusal(response)
        content: bytes = response.content
        return content


def _refusal(response: httpx.Response) -> PolicyServerError:
    text = f"{response.request.url} answered {response.status_code}: {response.text[:_SHOWN]}"
    if response.status_code == httpx.codes.NOT_FOUND:
        return VersionNotLoadedError(text)
    if response.status_code in (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE):
        return OverloadedError(text)
    if response.is_server_error:
        return PolicyAwayError(text)
    return PolicyServerError(text)
