"""PID 1 of a box: serves the worker's requests, one at a time.

Its modules are handed into the box as code and run by the host's own `python3 -I -S`, so they import only each other
and the standard library, and little of that: every import is paid for at each start. It shares its uid with the
commands that it watches, so it is not dumpable, and handles no signal that they could send.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import os
import sys

from sandbox_worker.sandbox.supervisor.command import run, set_dumpable
from sandbox_worker.sandbox.supervisor.files import RefusedError, read_file, restore, snapshot, write_file
from sandbox_worker.sandbox.supervisor.wire import Channel


def serve(channel: Channel) -> None:
    operations = {"run": run, "write": write_file, "read": read_file, "snapshot": snapshot, "restore": restore}
    channel.reply("ready")
    while True:
        operation, *fields = channel.request()
        try:
            operations[operation](channel, fields)
        except RefusedError as error:
            channel.drop_data()
            channel.reply("refused", str(error))
        except FileNotFoundError:
            channel.drop_data()
            channel.reply("missing", "there is no such file")
        except OSError as error:
            channel.drop_data()
            channel.reply("refused", error.strerror or str(error))
        channel.drop_data()


def main() -> None:
    fd = int(sys.argv[1])
    set_dumpable(False)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's own handler would let the command end us
    os.closerange(3, fd)
    os.closerange(fd + 1, 4096)
    os.set_inheritable(fd, False)
    serve(Channel(fd, wake_up_on(signal.SIGCHLD)))


def wake_up_on(number: int) -> int:
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(number, lambda _number, _frame: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader
