"""What a supervisor's report and the kernel's counters say of a command."""

from dataclasses import dataclass

from sandbox_worker.sandbox.base import Completed, End
from sandbox_worker.sandbox.channel import Reply

STOPPED_CODE = 124
TOO_MUCH_OUTPUT_CODE = 125
NOT_RUN_CODE = 126
OUT_OF_MEMORY_CODE = 137
_REPORT = 8


@dataclass(frozen=True)
class Counts:
    """What the kernel counted for a box so far."""

    oom_kills: int = 0
    pid_refusals: int = 0

    def since(self, before: "Counts") -> "Counts":
        return Counts(self.oom_kills - before.oom_kills, self.pid_refusals - before.pid_refusals)


@dataclass(frozen=True)
class Report:
    """The supervisor's, as output.c sends it."""

    why: str
    """Why it ended the command: time, output, cancelled; empty where the command ended by itself."""
    code: int
    """Negative for a signal."""
    printed: int
    seconds: float
    full: str
    used_bytes: int
    session: str

    @classmethod
    def of(cls, reply: Reply) -> "Report":
        """Raises ValueError for what is no report."""
        if len(reply.fields) != _REPORT:
            raise ValueError(f"a report has {_REPORT} fields, not {len(reply.fields)}")
        _, why, code, printed, seconds, full, used, session = reply.fields
        return cls(why, int(code), int(printed), float(seconds), full, int(used), session)


def completed(report: Report, output: bytes, hit: Counts) -> Completed:
    end = how(report, hit)
    finished = not report.why and report.code >= 0 and end is not End.OUT_OF_MEMORY
    return Completed(end, code_of(report, end), output, report.printed, report.seconds, finished, report.full)


def how(report: Report, hit: Counts) -> End:
    """A command that coped with the death of a part of it, or with a limit, and ended well, has ended well."""
    if report.why in _ENDED_BY_US:
        return _ENDED_BY_US[report.why]
    if report.why or report.code != 0:
        if hit.oom_kills:
            return End.OUT_OF_MEMORY
        if hit.pid_refusals:
            return End.PID_LIMIT
        if report.full:
            return End.DISK_FULL
    if report.why == "time":
        return End.TIMED_OUT
    return End.SIGNALLED if report.code < 0 else End.EXITED


_ENDED_BY_US = {"output": End.OUTPUT_LIMIT, "cancelled": End.CANCELLED}


def code_of(report: Report, end: End) -> int:
    if end is End.OUT_OF_MEMORY:
        return OUT_OF_MEMORY_CODE
    if report.why:
        return TOO_MUCH_OUTPUT_CODE if end is End.OUTPUT_LIMIT else STOPPED_CODE
    return 128 - report.code if report.code < 0 else report.code


def not_run(why: str) -> Completed:
    """As a shell says of what it cannot run."""
    output = f"cannot run: {why}\n".encode("utf-8", "replace")
    return Completed(End.EXITED, NOT_RUN_CODE, output, len(output), 0.0)


def box_ended(end: End, seconds: float) -> Completed:
    """The box went with its command."""
    code = OUT_OF_MEMORY_CODE if end is End.OUT_OF_MEMORY else STOPPED_CODE
    return Completed(end, code, b"", 0, seconds, finished=False)
