"""What is kept of a box's connections is bounded, and its counters are not."""

import logging
from datetime import UTC, datetime

import pytest

from sandbox_worker.sandbox.network.ledger import Decision, Ledger
from sandbox_worker.sandbox.network.verdict import NoPassageError, Verdict


def decision(number: int) -> Decision:
    verdict = Verdict.ALLOWED if number % 2 else Verdict.HOST_NOT_ALLOWED
    return Decision(datetime.now(UTC), "CONNECT", f"host{number}.example", 443, verdict, "", 1, 2, 0.1)


def ledger(**caps: int) -> Ledger:
    return Ledger("7.8.1", **({"records": 10, "up_bytes": 100, "down_bytes": 100} | caps))


def test_the_first_and_the_last_decisions_are_kept() -> None:
    kept = ledger(records=5)
    for number in range(100):
        kept.came()
        kept.ended(decision(number))
    assert [one.host for one in kept.log()] == [f"host{number}.example" for number in (0, 1, 97, 98, 99)]
    counters = kept.counters()
    assert (counters.open, counters.of(Verdict.ALLOWED), counters.of(Verdict.HOST_NOT_ALLOWED)) == (0, 50, 50)
    assert counters.of(Verdict.NOT_TLS) == 0


def test_the_workers_log_gets_a_bounded_number_of_lines(caplog: pytest.LogCaptureFixture) -> None:
    kept = ledger(records=4)
    with caplog.at_level(logging.INFO):
        for number in range(100):
            kept.ended(decision(number))
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "WARNING"]
    assert caplog.messages[0] == "box 7.8.1: CONNECT host0.example:443 host_not_allowed, 1 bytes up, 2 down"


def test_bytes_that_a_box_has_not_are_not_counted() -> None:
    kept = ledger(up_bytes=10)
    kept.add(up=10)
    with pytest.raises(NoPassageError) as caught:
        kept.add(up=1)
    assert caught.value.verdict == Verdict.BYTES_SPENT
    kept.add(down=100)
    assert (kept.counters().up_bytes, kept.counters().down_bytes) == (10, 100)
