import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sandbox_worker.messages import Ending, GradeReport, Outcome, Phases, ResourceUse, decode_segment
from sandbox_worker.outcomes import Address, OutcomeWriter
from wire.store import FolderStore, StoreError

HERE = Address(run_id=7, write_prefix="outcomes/7", reply_job="trajectories.segment_ready", reply_queue="control")
THERE = Address(run_id=8, write_prefix="outcomes/8", reply_job="trajectories.segment_ready", reply_queue="control")


def outcome(rollout_id: int = 1, message: str = "") -> Outcome:
    return Outcome(
        rollout_id=rollout_id,
        run_id=7,
        attempt=1,
        fence=1,
        incarnation="abc",
        ending=Ending(kind="submitted", evidence=message),
        rounds=(),
        grade=GradeReport(verdict="solved", score=1.0),
        phases=Phases(waited=0, start=0, agent=0, grade=0),
        use=ResourceUse(),
        started_at=1.0,
        finished_at=2.0,
    )


class FullStore(FolderStore):
    """A disk that is full for the first few writes."""

    def __init__(self, root: Path, *, refusals: int) -> None:
        super().__init__(root)
        self.refusals = refusals

    def put_if_absent(self, key: str, data: bytes) -> bool:
        if self.refusals:
            self.refusals -= 1
            raise StoreError("no space left on device")
        return super().put_if_absent(key, data)


class Sent(list[tuple[str, str, dict[str, Any]]]):
    """Messages, each with a look at the store at the moment of sending."""

    def __init__(self, store: FolderStore) -> None:
        super().__init__()
        self.store = store
        self.missing: list[str] = []

    def __call__(self, job: str, queue: str, argument: dict[str, Any]) -> None:
        if argument["key"] not in list(self.store.list(HERE.write_prefix)) + list(self.store.list(THERE.write_prefix)):
            self.missing.append(argument["key"])
        self.append((job, queue, argument))


def until(condition: Callable[[], bool], *, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never became true"
        time.sleep(0.02)


def test_outcomes_are_in_the_store_before_any_message_says_so(store: FolderStore) -> None:
    sent = Sent(store)
    writer = OutcomeWriter(store, "abc", sent)
    for number in range(20):
        writer.put(HERE, outcome(number))
        writer.put(THERE, outcome(100 + number))
    assert writer.close(timeout=5)
    assert sent.missing == []
    assert sum(argument["outcomes"] for _, _, argument in sent) == 40


def test_a_segment_holds_the_outcomes_of_one_address(store: FolderStore) -> None:
    sent = Sent(store)
    writer = OutcomeWriter(store, "abc", sent)
    writer.put(HERE, outcome(1, "line\nbreak"))
    writer.put(HERE, outcome(2))
    writer.close(timeout=5)
    job, queue, argument = sent[0]
    data = store.get(argument["key"])
    assert argument["key"].startswith("outcomes/7/abc/0000000")
    assert argument["sha256"] == hashlib.sha256(data).hexdigest()
    assert (job, queue) == ("trajectories.segment_ready", "control")
    found = [entry for key in store.list("outcomes/7") for _, _, entry in decode_segment(store.get(key))]
    assert [entry.rollout_id for entry in found] == [1, 2]


def test_a_message_that_cannot_be_sent_is_dropped_and_the_segment_stays(store: FolderStore) -> None:
    def broken(job: str, queue: str, argument: dict[str, Any]) -> None:
        raise ConnectionError("no broker")

    writer = OutcomeWriter(store, "abc", broken)
    writer.put(HERE, outcome())
    writer.close(timeout=5)
    assert list(store.list("outcomes/7")) == ["outcomes/7/abc/00000001.jsonl"]
    assert writer.counters()["messages_lost"] == 1


def test_outcomes_stay_in_memory_until_the_store_takes_them(tmp_path: Path) -> None:
    store = FullStore(tmp_path, refusals=3)
    sent = Sent(store)
    writer = OutcomeWriter(store, "abc", sent)
    writer.put(HERE, outcome(1))
    until(lambda: writer.store_failures >= 1)
    writer.put(HERE, outcome(2))
    assert writer.counters()["outcomes_unwritten"] >= 1
    until(lambda: writer.written == 2)
    writer.close(timeout=5)
    assert sum(argument["outcomes"] for _, _, argument in sent) == 2


def test_many_outcomes_become_few_segments(store: FolderStore) -> None:
    sent = Sent(store)
    writer = OutcomeWriter(store, "abc", sent)
    for number in range(1000):
        writer.put(HERE, outcome(number))
    writer.close(timeout=5)
    assert sum(argument["outcomes"] for _, _, argument in sent) == 1000
    assert len(sent) < 20


def test_an_outcome_that_cannot_be_written_is_ours_and_keeps_no_other_waiting(store: FolderStore) -> None:
    writer = OutcomeWriter(store, "abc", Sent(store))
    writer.put(HERE, outcome(1, "half a character \ud800"))
    writer.put(HERE, outcome(2))
    assert writer.close(timeout=5)
    found = [entry for key in store.list("outcomes/7") for _, _, entry in decode_segment(store.get(key))]
    assert [(entry.rollout_id, entry.ending.kind, entry.ending.detail) for entry in found] == [
        (1, "infra", "worker"),
        (2, "submitted", ""),
    ]
    assert found[0].grade.verdict == "none"


def test_closing_tells_of_what_the_store_did_not_take(tmp_path: Path) -> None:
    store = FullStore(tmp_path, refusals=10_000)
    writer = OutcomeWriter(store, "abc", Sent(store))
    writer.put(HERE, outcome(1))
    assert not writer.close(timeout=0.5)
    assert writer.holding() == ["1:1"]
    store.refusals = 0
    assert writer.close(timeout=5)
