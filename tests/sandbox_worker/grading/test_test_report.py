import json

import pytest

from sandbox_worker.grading.test_report import read_checks
from sandbox_worker.messages import Check


def test_the_checks_of_a_report_are_shown() -> None:
    tests = [{"name": "a", "status": "passed"}, {"name": "b", "status": "failed", "message": "1 != 2\0"}, "junk"]
    report = json.dumps({"results": {"tests": tests}}).encode()
    assert read_checks(report) == (Check(name="a", passed=True), Check(name="b", passed=False, detail="1 != 2\\x00"))


@pytest.mark.parametrize("report", [b"", b"{}", b"[]", b'{"results": {"tests": 3}}', b'{"results": []}', b"\xff"])
def test_what_is_no_report_shows_nothing(report: bytes) -> None:
    assert read_checks(report) == ()


def test_a_huge_report_is_cut() -> None:
    report = {"results": {"tests": [{"name": "x" * 10_000, "status": "passed"}] * 5000}}
    checks = read_checks(json.dumps(report).encode())
    assert (len(checks), len(checks[0].name)) == (500, 500)
