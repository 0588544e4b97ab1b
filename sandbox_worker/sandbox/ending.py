"""What a supervisor's report and the kernel's counter of killed processes say of a command."""

from sandbox_worker.sandbox.base import Completed, End
from sandbox_worker.sandbox.channel import Reply

TIMED_OUT_CODE = 124
OUT_OF_MEMORY_CODE = 137
NOT_RUN_CODE = 126


def completed(reply: Reply, *, out_of_memory: bool) -> Completed:
    """The report's fields: ok, timed out, exit code (negative for a signal), bytes printed, seconds."""
    _, timed_out, code, printed, seconds = reply.fields
    end, exit_code = how(int(code), timed_out=timed_out == "1", out_of_memory=out_of_memory)
    return Completed(end, exit_code, reply.data, int(printed), float(seconds))


def not_run(why: str) -> Completed:
    """As a shell says of what it cannot run."""
    output = f"cannot run: {why}\n".encode("utf-8", "replace")
    return Completed(End.EXITED, NOT_RUN_CODE, output, len(output), 0.0)


def how(code: int, *, timed_out: bool, out_of_memory: bool) -> tuple[End, int]:
    """A command that coped with the death of a part of it, and ended well, has ended well."""
    if out_of_memory and (timed_out or code != 0):
        return End.OUT_OF_MEMORY, OUT_OF_MEMORY_CODE
    if timed_out:
        return End.TIMED_OUT, TIMED_OUT_CODE
    if code < 0:
        return End.SIGNALLED, 128 - code
    return End.EXITED, code
