"""What is said of one connection."""

from sandbox_worker.sandbox.network.caps import Caps
from sandbox_worker.sandbox.network.ledger import Ledger
from sandbox_worker.sandbox.network.verdict import NoPassageError, Verdict
from sandbox_worker.sandbox.network.visit import Visit


def visit() -> Visit:
    return Visit(Ledger("1.2.1", records=10, up_bytes=10, down_bytes=10), Caps())


def test_a_connection_that_came_to_nothing_was_hung_up() -> None:
    found = visit().decision()
    assert (found.verdict, found.host, found.port, found.allowed) == (Verdict.HUNG_UP, "", 0, False)


def test_a_refusal_after_all_is_what_counts() -> None:
    one = visit()
    one.let_through()
    assert one.decision().allowed
    one.refuse(NoPassageError(Verdict.BYTES_SPENT, "too much", "11 bytes"))
    assert (one.decision().verdict, one.decision().words) == (Verdict.BYTES_SPENT, "too much (11 bytes)")


def test_words_from_outside_take_a_bounded_place() -> None:
    one = visit()
    one.refuse(NoPassageError(Verdict.UNREACHABLE, "no HTTP", "x" * 100_000))
    assert len(one.decision().words) == 500
