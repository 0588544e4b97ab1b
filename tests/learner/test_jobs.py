import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kombu import Connection

from learner.messages import LEARNER_QUEUE, TAKE_STEP_JOB, StepOutcome, StepRequest
from tests.learner.shop import Shop
from wire.incarnation import Orders, orders_key

pytestmark = pytest.mark.process

CONTROL = "control-of-the-learner-tests"


@contextmanager
def running_learner(broker: str, shop: Shop) -> Iterator[subprocess.Popen[bytes]]:
    environment = os.environ | {
        "ASSAY_BROKER_URL": broker,
        "ASSAY_STORE_URL": str(shop.folder / "store"),
        "ASSAY_DATA": str(shop.folder / "data"),
        "ASSAY_TORCH_THREADS": "1",
    }
    command = [sys.executable, "-m", "celery", "-A", "learner.jobs:app", "worker", "-P", "threads", "-c", "1"]
    options = ["-Q", LEARNER_QUEUE, "--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "WARNING"]
    process = subprocess.Popen([*command, *options], env=environment)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def ask(broker: str, request: StepRequest) -> None:
    """As Celery's message protocol 2 has it."""
    with Connection(broker) as connection, connection.SimpleQueue(LEARNER_QUEUE) as queue:
        headers = {"task": TAKE_STEP_JOB, "id": f"{request.step_id}-{request.fence}", "lang": "py"}
        body: list[object] = [
            [msgspec.to_builtins(request)],
            {},
            {"callbacks": None, "errbacks": None, "chain": None, "chord": None},
        ]
        queue.put(body, headers=headers, serializer="json")


def next_message(broker: str, queue_name: str, job: str) -> dict[str, Any]:
    """The argument of the next message to that job."""
    with Connection(broker) as connection, connection.SimpleQueue(queue_name) as queue:
        while True:
            message = queue.get(timeout=60)
            message.ack()
            if message.headers["task"] == job:
                argument: dict[str, Any] = json.loads(message.body or "")[0][0]
                return argument


def next_beat(broker: str, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Of this learner: the session's broker may hold those of others."""
    while (beat := next_message(broker, "control", "fleet.heartbeat"))["pid"] != process.pid:
        pass
    return beat


def test_a_request_through_the_broker_is_answered_with_its_outcome_in_the_store(broker: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    request = shop.request(1, reply_queue=CONTROL)
    ask(broker, request)
    with running_learner(broker, shop):
        ready = next_message(broker, CONTROL, "training.step_ready")
        assert (ready["step_id"], ready["key"]) == (101, request.outcome_key)
        assert shop.outcome(request).state == "made"
        ask(broker, request)
        assert next_message(broker, CONTROL, "training.step_ready") == ready


def test_a_learner_beats_obeys_and_says_goodbye(broker: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    with running_learner(broker, shop) as process:
        beat = next_beat(broker, process)
        assert (beat["kind"], beat["capacity"], beat["holding"]) == ("learner", 1, [])
        orders = Orders(cancelled=frozenset({"101:1"}))
        shop.store.put(orders_key(beat["incarnation"]), msgspec.json.encode(orders))
        time.sleep(2.5)
        request = shop.request(1, reply_queue=CONTROL)
        ask(broker, request)
        next_message(broker, CONTROL, "training.step_ready")
        outcome = msgspec.json.decode(shop.store.get(request.outcome_key), type=StepOutcome)
        assert (outcome.state, outcome.error) == ("failed", "the step was cancelled")
    while not (last := next_beat(broker, process))["leaving"]:
        pass
    assert last["incarnation"] == beat["incarnation"]
