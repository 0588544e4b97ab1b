import threading
import time
from collections.abc import Iterator

import pytest

from sandbox_worker.attempt import Attempt, AttemptCancelledError
from sandbox_worker.errors import BoundaryError
from sandbox_worker.policy_client import (
    ConnectionLostError,
    OverloadedError,
    PolicyAwayError,
    PolicyClient,
    PolicyServerError,
    PolicyTimeoutError,
    VersionNotLoadedError,
)
from tests.sandbox_worker.factories import rollout_request
from tests.sandbox_worker.policy_server import serving

OK: dict[str, object] = {"fine": True}


@pytest.fixture
def client() -> Iterator[PolicyClient]:
    made = PolicyClient(connections=4, outage_seconds=1.0)
    yield made
    made.close()


def attempt(seconds: float = 60.0) -> Attempt:
    return Attempt(rollout_request(("k", "d"), deadline=time.time() + seconds))


@pytest.mark.parametrize(
    ("status", "error"),
    [(404, VersionNotLoadedError), (429, OverloadedError), (503, OverloadedError), (500, PolicyAwayError)],
)
def test_what_may_pass_is_tried_again_and_then_named(client: PolicyClient, status: int, error: type[Exception]) -> None:
    with serving(lambda body, number: (status, {"error": "x"})) as server:
        with pytest.raises(error, match=str(status)):
            client.post(server.url, {}, attempt())
        assert len(server.calls) > 1


def test_a_refusal_is_not_tried_again(client: PolicyClient) -> None:
    with serving(lambda body, number: (400, {"error": "too long"})) as server:
        with pytest.raises(PolicyServerError, match="too long") as caught:
            client.post(server.url, {}, attempt())
        assert len(server.calls) == 1
    assert not isinstance(caught.value, PolicyAwayError)


def test_nobody_there_is_a_lost_connection(client: PolicyClient) -> None:
    with pytest.raises(ConnectionLostError):
        client.post("http://127.0.0.1:9", {}, attempt())


def test_a_server_that_comes_back_is_found_and_its_absence_measured() -> None:
    client = PolicyClient(connections=4, outage_seconds=20.0)
    with serving(lambda body, number: OK) as server:
        port, url = server.server_address[1], server.url
        client.post(url, {}, attempt())
    found: list[tuple[bytes, float]] = []
    waiting = threading.Thread(target=lambda: found.append(client.post(url, {}, attempt())))
    waiting.start()
    time.sleep(0.5)
    with serving(lambda body, number: OK, port=port):
        waiting.join(20)
    client.close()
    assert found[0][0] == b'{"fine": true}'
    assert found[0][1] > 0.3


def test_no_answer_before_the_deadline_is_a_timeout(client: PolicyClient) -> None:
    release = threading.Event()

    def answer(body: dict[str, object], number: int) -> dict[str, object]:
        release.wait(20)
        return OK

    with serving(answer) as server:
        with pytest.raises((PolicyTimeoutError, BoundaryError)):
            client.post(server.url, {}, attempt(seconds=0.5))
        release.set()


def test_a_cancelled_attempt_is_not_tried_again(client: PolicyClient) -> None:
    cancelled = attempt()
    threading.Timer(0.3, cancelled.cancel).start()
    with pytest.raises(AttemptCancelledError):
        client.post("http://127.0.0.1:9", {}, cancelled)
