"""A probe believes what was done, not what was asked for: each has an answer that proves nothing."""

from collections.abc import Callable
from typing import cast

import pytest

from sandbox_worker.sandbox import probes
from sandbox_worker.sandbox.base import Box, BoxDeadError, Completed, End
from sandbox_worker.sandbox.probes import Seen


class Answers:
    """A box of which only the answers are there."""

    def __init__(self, *answers: Completed) -> None:
        self._answers = list(answers)

    def run(self, command: list[str], *, timeout: float) -> Completed:
        assert command
        assert timeout > 0
        if not self._answers:
            raise BoxDeadError("The supervisor is gone.")
        return self._answers.pop(0)


def answer(output: str, end: End = End.EXITED, exit_code: int = 0) -> Completed:
    return Completed(end, exit_code, output.encode(), len(output), 0.1)


def seen(look: Callable[[Box], Seen], *answers: Completed) -> Seen:
    return look(cast(Box, Answers(*answers)))


@pytest.mark.parametrize(
    ("look", "answers", "words"),
    [
        (probes.starts, [answer("no such thing", exit_code=127)], "runs no commands (no such thing)"),
        (probes.memory, [answer("")], "asked for 128 MiB of 48 MiB exited with exit code 0"),
        (probes.processes, [answer("40\n")], "40 of 8 were started"),
        (probes.processes, [answer("Killed", exit_code=137)], "Killed of 8"),
        (probes.cpu, [answer("1.97\n")], "1.97 of a core instead of 0.05"),
        (probes.cpu, [answer("Traceback")], "could not be measured: Traceback"),
        (probes.disk, [answer("4096 no error\n")], "quota of 1024 KiB does not take effect: 4096 no error"),
        (probes.disk, [answer("512 EROFS\n")], "512 EROFS"),
        (probes.disk, [answer("0 ENOSPC\n")], "0 ENOSPC"),
        (probes.output, [answer("x" * 5000)], "5000 kept"),
        (probes.output, [answer("x" * 10)], "10 counted"),
        (probes.time, [answer(""), answer("2\n")], "exited with exit code 0"),
        (probes.time, [answer("", End.TIMED_OUT, 124), answer("4\n")], "then 4 processes of 2"),
        (probes.network, [answer("lo, eth0\nconnected\nconnected\n")], "this host's loopback: connected"),
        (probes.network, [answer("lo\nConnection refused\nTimeoutError\n")], "192.0.2.1: TimeoutError"),
        (probes.outside, [answer("/usr /etc\n")], "reaches what is not its own: /usr /etc"),
        (probes.outside, [answer("", exit_code=1)], "reaches what is not its own"),
    ],
)
def test_an_answer_that_proves_no_limit(look: Callable[[Box], Seen], answers: list[Completed], words: str) -> None:
    found = seen(look, *answers)
    assert not found.holds
    assert words in found.found


def test_a_box_that_dies_of_its_memory_has_a_limit() -> None:
    assert seen(probes.memory).holds
