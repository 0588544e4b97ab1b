"""What is tried in real boxes, through the contract alone: each probe asks for more than a limit gives.

The same for every back end. Each has a box of its own, so that none can spoil another.
"""

import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace

from sandbox_worker.sandbox import layout
from sandbox_worker.sandbox.base import Box, BoxDeadError, BoxSpec, Completed, End, Limits

LIMITS = Limits(cpus=1.0, memory_bytes=48 * 2**20, pids=8, disk_bytes=2**20, output_bytes=4096)
QUOTA = 0.05
"""Of a core: so little that two busy processes would get more of it on a host that is as busy as can be."""
_SECONDS = 20.0
_SHORT_SECONDS = 0.5
_ASKED_MEMORY = 2**27
_ASKED_PROCESSES = 40
_PRINTED = 1_000_000
_TOLERATED = 1.6
"""Times the quota: the first and the last period of the measure are not whole."""
_ELSEWHERE = "192.0.2.1"
"""An address that is for documentation: nobody answers there, but a box must not even ask."""

_TAKE_MEMORY = f"x = bytearray({_ASKED_MEMORY})\nx[::4096] = bytes(len(x[::4096]))"
_TAKE_PROCESSES = f"""
import os, time
made = 0
try:
    while made < {_ASKED_PROCESSES}:
        if os.fork() == 0:
            time.sleep(60)
        made += 1
except OSError:
    pass
print(made)
"""
_TAKE_DISK = """
import errno
kept = 0
try:
    while kept < 64:
        with open(f"part-{kept}", "wb", buffering=0) as part:
            if part.write(bytes(65536)) < 65536:
                continue
        kept += 1
except OSError as error:
    print(kept * 64, errno.errorcode[error.errno])
else:
    print(kept * 64, "no error")
"""
_TAKE_CPU = """
import os, time
start, other = time.monotonic(), os.fork()
while time.monotonic() - start < 1.0:
    pass
if other == 0:
    os._exit(0)
os.waitpid(other, 0)
print(sum(os.times()[:4]) / (time.monotonic() - start))
"""
_PRINT = f"print('x' * {_PRINTED - 1})"
_IGNORE_TERM = "trap '' TERM; (trap '' TERM; sleep 60) & while :; do sleep 60; done"
_COUNT_PROCESSES = "set -- /proc/[0-9]*; echo $#"
_CONNECT = """
import os, socket, sys
with open("/proc/net/dev") as lines:
    print(", ".join(line.split(":")[0].strip() for line in list(lines)[2:]))
for address in (("127.0.0.1", int(sys.argv[1])), (sys.argv[2], 80)):
    with socket.socket() as asking:
        asking.settimeout(3)
        try:
            asking.connect(address)
            print("connected")
        except OSError as error:
            print(type(error).__name__ if error.errno is None else os.strerror(error.errno))
"""
_WRITE_OUTSIDE = """
import os, sys
open_to = [sys.argv[1]] if os.path.exists(sys.argv[1]) else []
for folder in ("/", "/usr", "/usr/bin", "/etc", "/dev", "/proc/sys/kernel", "/sys", "/sys/fs/cgroup"):
    try:
        with open(os.path.join(folder, "domainname" if "/proc/" in folder else "assay-probe"), "w"):
            open_to.append(folder)
    except OSError:
        pass
print(" ".join(open_to))
"""


@dataclass(frozen=True)
class Seen:
    holds: bool
    found: str


@dataclass(frozen=True)
class Probe:
    name: str
    look: Callable[[Box], Seen]
    limits: Limits = LIMITS
    by_group: bool = False
    """Held by a control group: without one, boxes are weaker in this."""

    @property
    def spec(self) -> BoxSpec:
        return BoxSpec(limits=self.limits, label="preflight")


def starts(box: Box) -> Seen:
    done = box.run(["/bin/sh", "-c", "echo isolated"], timeout=_SECONDS)
    if done.output == b"isolated\n":
        return Seen(True, "a box starts and runs a command")
    return Seen(False, f"a box runs no commands ({said(done)})")


def memory(box: Box) -> Seen:
    asked, limit = megabytes(_ASKED_MEMORY), megabytes(LIMITS.memory_bytes)
    try:
        done = box.run([layout.PYTHON, "-c", _TAKE_MEMORY], timeout=_SECONDS)
    except BoxDeadError:  # a kernel without the counter, but with the limit
        return Seen(True, f"a command that took {asked} died with its box, of which the limit is {limit}")
    if done.end is End.OUT_OF_MEMORY:
        return Seen(True, f"a command that took {asked} was killed at the limit of {limit}")
    return Seen(
        False, f"the memory limit does not take effect: a command that asked for {asked} of {limit} {ended(done)}"
    )


def processes(box: Box) -> Seen:
    done = box.run([layout.PYTHON, "-c", _TAKE_PROCESSES], timeout=_SECONDS)
    if said(done).isdigit() and int(said(done)) <= LIMITS.pids:
        return Seen(True, f"{said(done)} of {_ASKED_PROCESSES} processes could be started, the limit is {LIMITS.pids}")
    return Seen(False, f"the process limit does not take effect: {said(done)} of {LIMITS.pids} were started")


def disk(box: Box) -> Seen:
    done = box.run([layout.PYTHON, "-c", _TAKE_DISK], timeout=_SECONDS)
    kept, _, error = said(done).partition(" ")
    quota = LIMITS.disk_bytes // 1024
    if kept.isdigit() and 0 < int(kept) <= quota and error in ("ENOSPC", "EDQUOT"):
        return Seen(True, f"{kept} of 4096 KiB could be kept, then {error}; the quota is {quota} KiB")
    return Seen(False, f"the disk quota of {quota} KiB does not take effect: {said(done)}")


def cpu(box: Box) -> Seen:
    done = box.run([layout.PYTHON, "-c", _TAKE_CPU], timeout=_SECONDS)
    try:
        share = float(said(done))
    except ValueError:
        return Seen(False, f"the use of the processor could not be measured: {said(done)}")
    if share <= QUOTA * _TOLERATED:
        return Seen(True, f"two busy processes got {share:.2f} of a core, the quota is {QUOTA}")
    return Seen(False, f"the cpu quota does not take effect: {share:.2f} of a core instead of {QUOTA}")


def output(box: Box) -> Seen:
    done = box.run([layout.PYTHON, "-c", _PRINT], timeout=_SECONDS)
    kept, cap = len(done.output), LIMITS.output_bytes
    if kept <= cap and done.output_bytes == _PRINTED:
        return Seen(True, f"{kept} of {_PRINTED} bytes were kept, the cap is {cap}; all were counted")
    return Seen(False, f"the output cap of {cap} bytes does not hold: {kept} kept, {done.output_bytes} counted")


def time(box: Box) -> Seen:
    """The command ignores what asks it to end, and leaves another behind that does too."""
    done = box.run(["/bin/sh", "-c", _IGNORE_TERM], timeout=_SHORT_SECONDS)
    left = said(box.run(["/bin/sh", "-c", _COUNT_PROCESSES], timeout=_SECONDS))
    if done.end is End.TIMED_OUT and left == "2":  # the supervisor, and who counts
        words = f"a command that ignores TERM was dead after {done.seconds:.2f} s with a limit of {_SHORT_SECONDS} s"
        return Seen(True, f"{words}, and nothing was left of it")
    return Seen(False, f"the time limit does not hold: {ended(done)}, then {left} processes of 2")


def network(box: Box) -> Seen:
    """This host's own loopback has somebody who would answer."""
    with socket.create_server(("127.0.0.1", 0)) as here:
        port = here.getsockname()[1]
        done = box.run([layout.PYTHON, "-c", _CONNECT, str(port), _ELSEWHERE], timeout=_SECONDS)
    interfaces, ours, elsewhere = [*said(done).splitlines(), "", "", ""][:3]
    held = (ours, elsewhere) == ("Connection refused", "Network is unreachable")
    words = f"interfaces {interfaces}; a port of this host's loopback: {ours}; {_ELSEWHERE}: {elsewhere}"
    return Seen(held, words if held else f"a box has a network: {words}")


def outside(box: Box) -> Seen:
    with tempfile.NamedTemporaryFile(prefix="assay-probe-") as mark:
        done = box.run([layout.PYTHON, "-c", _WRITE_OUTSIDE, mark.name], timeout=_SECONDS)
    if done.exit_code == 0 and not said(done):
        return Seen(True, "8 places outside of its own folders take no writing, and no file of this host's /tmp shows")
    return Seen(False, f"a box reaches what is not its own: {said(done)}")


STARTS = Probe("starts", starts)
LIMITED = (
    Probe("memory", memory, by_group=True),
    Probe("processes", processes, by_group=True),
    Probe("cpu", cpu, replace(LIMITS, cpus=QUOTA), by_group=True),
    Probe("disk", disk),
    Probe("output", output),
    Probe("time", time),
    Probe("network", network),
    Probe("outside", outside),
)


def said(done: Completed) -> str:
    return done.output.decode("utf-8", "replace").strip()[-500:]


def ended(done: Completed) -> str:
    return f"{done.end} with exit code {done.exit_code} after {done.seconds:.2f} s"


def megabytes(size: int) -> str:
    return f"{size // 2**20} MiB"
