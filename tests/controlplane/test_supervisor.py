"""The supervisor, with trivial programs as its processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import psutil
import pytest

from controlplane.process import Process
from controlplane.supervisor import StartError, Supervisor

pytestmark = pytest.mark.process

SLEEP = "import time; time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
)


def python(name: str, code: str, *, gate: bool = False, once: bool = False) -> Process:
    return Process(name=name, command=(sys.executable, "-c", code), gate=gate, once=once)


def until(holds: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.02)


def is_alive(pid: int | None) -> bool:
    """A zombie is dead: a container's first process may never reap it."""
    if pid is None or not psutil.pid_exists(pid):
        return False
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_what_is_started_ends_with_stop() -> None:
    with Supervisor([python("one", SLEEP), python("two", SLEEP)]) as supervisor:
        pids = [supervisor.pid_of("one"), supervisor.pid_of("two")]
        assert all(is_alive(pid) for pid in pids)
    assert not any(is_alive(pid) for pid in pids)
    assert supervisor.pid_of("one") is None


def test_stopping_twice_and_without_a_start_is_harmless() -> None:
    supervisor = Supervisor([python("one", SLEEP)])
    supervisor.stop()
    supervisor.stop()


def test_a_killed_process_is_started_again() -> None:
    with Supervisor([python("one", SLEEP)]) as supervisor:
        first = supervisor.pid_of("one")
        assert first is not None
        os.kill(first, signal.SIGKILL)
        until(lambda: supervisor.pid_of("one") not in (None, first))
        assert supervisor.restarts_of("one") == 1


def test_quick_ends_are_started_again_with_growing_delays(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    code = f"import time; open({str(starts)!r}, 'a').write(f'{{time.monotonic()}}\\n')"
    with Supervisor([python("one", code)]) as supervisor:
        until(lambda: supervisor.restarts_of("one") >= 3)
    first, second, third = [float(line) for line in starts.read_text().split()][:3]
    assert third - second > second - first


def test_a_gate_is_ready_before_the_next_starts(tmp_path: Path) -> None:
    flag = tmp_path / "ready"
    gate = Process(
        name="gate",
        command=(sys.executable, "-c", f"import time; time.sleep(0.3); open({str(flag)!r}, 'w'); time.sleep(600)"),
        ready=flag.exists,
        gate=True,
    )
    step = python("step", f"import os, sys; sys.exit(not os.path.exists({str(flag)!r}))", once=True)
    with Supervisor([gate, step]) as supervisor:
        assert supervisor.pid_of("step") is None
        assert is_alive(supervisor.pid_of("gate"))


def test_a_failed_step_stops_the_start_and_shows_what_it_said() -> None:
    supervisor = Supervisor(
        [python("gate", SLEEP, gate=True), python("step", "raise SystemExit('no disk')", once=True)]
    )
    with pytest.raises(StartError, match="no disk"):
        supervisor.start()
    assert supervisor.pid_of("gate") is None


def test_a_gate_that_ends_stops_the_start() -> None:
    gate = Process(name="gate", command=(sys.executable, "-c", "print('bad data')"), ready=lambda: False, gate=True)
    with pytest.raises(StartError, match="bad data"):
        Supervisor([gate]).start()


def test_a_process_that_is_never_ready_stops_the_start() -> None:
    slow = Process(name="slow", command=(sys.executable, "-c", SLEEP), ready=lambda: False, ready_seconds=0.3)
    supervisor = Supervisor([slow])
    with pytest.raises(StartError, match="not ready"):
        supervisor.start()
    assert supervisor.pid_of("slow") is None


def test_a_host_that_cannot_isolate_is_told_once_and_the_others_go_on(tmp_path: Path) -> None:
    refusing = python("sandbox", "import sys; print('no user namespaces'); sys.exit(78)")
    console = StringIO()
    with Supervisor([python("web", SLEEP), refusing], logs=tmp_path, console=console) as supervisor:
        until(lambda: supervisor.refused() == ["sandbox"])
        time.sleep(1)
        assert supervisor.restarts_of("sandbox") == 0
        assert is_alive(supervisor.pid_of("web"))
        assert console.getvalue().count("no user namespaces") == 1
    assert (tmp_path / "sandbox.log").read_text() == "no user namespaces\n"


def test_a_process_that_ignores_the_stop_signal_is_killed(tmp_path: Path) -> None:
    supervisor = Supervisor([python("deaf", STUBBORN)], logs=tmp_path, stop_seconds=0.5)
    supervisor.start()
    pid = supervisor.pid_of("deaf")
    until(lambda: (tmp_path / "deaf.log").read_text())
    supervisor.stop()
    assert not is_alive(pid)


def test_what_a_process_started_ends_with_it(tmp_path: Path) -> None:
    start = f"subprocess.Popen([sys.executable, '-c', {STUBBORN!r}])"
    code = f"import subprocess, sys, time; print({start}.pid, flush=True); time.sleep(600)"
    with Supervisor([python("parent", code)], logs=tmp_path) as supervisor:
        until(lambda: "deaf" in (tmp_path / "parent.log").read_text())
        grandchild = int((tmp_path / "parent.log").read_text().split()[0])
        parent = supervisor.pid_of("parent")
        assert parent is not None
        os.kill(parent, signal.SIGKILL)
        until(lambda: not is_alive(grandchild))


RUN = f"""
import sys, time
from controlplane.process import Process
from controlplane.supervisor import Supervisor
names = {{"meek": {SLEEP!r}, "deaf": {STUBBORN!r}}}
supervisor = Supervisor([Process(name=name, command=(sys.executable, "-c", code)) for name, code in names.items()])
supervisor.start()
time.sleep(0.5)
print(*[supervisor.pid_of(name) for name in names], flush=True)
time.sleep(600)
"""


def test_a_killed_supervisor_leaves_no_process() -> None:
    program = subprocess.Popen([sys.executable, "-c", RUN], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    children = [int(word) for word in program.stdout.readline().split()]
    tree = psutil.Process(program.pid).children(recursive=True)
    assert {process.pid for process in tree} > set(children)
    program.kill()
    program.wait()
    program.stdout.close()
    until(lambda: not any(is_alive(process.pid) for process in tree), seconds=15)


def test_a_killed_guard_is_replaced() -> None:
    with Supervisor([python("one", SLEEP)]) as supervisor:
        guard = next(each for each in psutil.Process().children() if "guard.py" in " ".join(each.cmdline()))
        guard.kill()
        first = supervisor.pid_of("one")
        assert first is not None
        os.kill(first, signal.SIGKILL)
        until(lambda: supervisor.pid_of("one") not in (None, first))
        assert any("guard.py" in " ".join(each.cmdline()) for each in psutil.Process().children() if is_alive(each.pid))
