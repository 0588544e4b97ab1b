"""Keeps a list of processes running, as one tree that starts in order and ends as one.

One thread starts and watches all of them. Should this program be killed, the kernel sends each of them its stop
signal, and the guard kills what does not follow it.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from controlplane.child import Child
from controlplane.guard import Guard
from controlplane.output import Console, Log
from controlplane.process import Process

STOP_SECONDS = 8.0
"""From the stop signal to SIGKILL."""
GATE_SECONDS = 1.6
"""What the gates get after that at least, together: a killed database recovers at its next start."""
LOOK_SECONDS = 0.1


class SupervisorError(Exception):
    """The processes cannot be kept running."""


class StartError(SupervisorError):
    def __init__(self, name: str, why: str, output: str) -> None:
        super().__init__(f"{name} {why}" + (f"; it last said:\n{output}" if output else ""))
        self.name = name
        self.output = output


class Supervisor:
    def __init__(
        self,
        processes: Sequence[Process],
        *,
        logs: Path | None = None,
        console: TextIO | None = None,
        stop_seconds: float = STOP_SECONDS,
    ) -> None:
        """logs: a folder for one file a process. console: where their lines are shown as well."""
        if logs is not None:
            logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._console = Console(console)
        self._guard = Guard()
        self._children = {each.name: self._child(each, logs) for each in processes}
        self._stop_seconds = stop_seconds
        self._stopping = threading.Event()
        self._settled = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Returns once all are ready, or a stop was asked for. Raises StartError, with nothing left running."""
        self._thread.start()
        self._settled.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure

    def ask_to_stop(self) -> None:
        """Returns at once; for signal handlers."""
        self._stopping.set()

    def stop(self) -> None:
        """Ends all of them. Safe to call twice, and during start."""
        self._stopping.set()
        if self._thread.ident is None:
            self._stop_all()
        else:
            self._thread.join()

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def wait(self) -> None:
        """Until they have ended because a stop was asked for. Raises what made the supervisor itself fail."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def pid_of(self, name: str) -> int | None:
        """None while it is not running."""
        return self._children[name].pid

    def restarts_of(self, name: str) -> int:
        return self._children[name].restarts

    def say(self, text: str) -> None:
        """On the console, among the lines of the processes."""
        self._console.say("up", text)

    def refused(self) -> list[str]:
        """Those that said that they cannot work on this host."""
        return [name for name, child in self._children.items() if child.refused]

    def last_words(self, name: str) -> str:
        """The last lines that it printed."""
        return self._children[name].log.tail()

    def _child(self, process: Process, logs: Path | None) -> Child:
        log = Log(process.name, logs if process.keep_output else None, self._console)
        return Child(process, log, self._guard)

    def _run(self) -> None:
        try:
            self._start_all()
            self._settled.set()
            while not self._stopping.wait(LOOK_SECONDS):
                self._look()
        except Exception as error:  # noqa: BLE001 (it rises in the thread that waits for this one)
            self._failure = error
        try:
            self._stop_all()
        except Exception as error:  # noqa: BLE001
            self._failure = self._failure or error
        self._settled.set()

    def _start_all(self) -> None:
        for child in self._children.values():
            if self._stopping.is_set():
                return
            child.start()
            if child.process.once:
                self._run_step(child)
            elif child.process.gate:
                self._until_ready([child])
        self._until_ready([child for child in self._children.values() if not child.process.once])

    def _run_step(self, child: Child) -> None:
        while (code := child.ended()) is None:
            if self._stopping.wait(0.02):
                return
        if code != 0:
            raise StartError(child.process.name, f"ended with exit code {code}", child.log.tail())

    def _until_ready(self, waiting: list[Child]) -> None:
        since = time.monotonic()
        while waiting := [child for child in waiting if not child.refused and not child.is_ready()]:
            if self._stopping.wait(0.03):
                return
            self._look()
            for child in waiting:
                if child.process.gate and child.pid is None:
                    raise StartError(child.process.name, "ended before it was ready", child.log.tail())
                if time.monotonic() - since > child.process.ready_seconds:
                    why = f"was not ready after {child.process.ready_seconds:.0f} s"
                    raise StartError(child.process.name, why, child.log.tail())

    def _look(self) -> None:
        """Whatever ended is started again when its delay is over."""
        for name, child in self._children.items():
            if child.restart_if_due():
                self.say(f"{name} started again (restart {child.restarts})")
            elif (code := child.ended()) is not None:
                self._after_end(name, child, code)

    def _after_end(self, name: str, child: Child, code: int) -> None:
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        if code == os.EX_CONFIG and not child.process.gate:
            child.refused = True
            child.log.settle()  # its own words, which say why, stand above these
            self.say(f"{name} cannot work on this host, for the reason above, and is not started again")
        else:
            self.say(f"{name} {how}; it is started again in {child.plan_restart():.1f} s")

    def _stop_all(self) -> None:
        began = time.monotonic()
        gates = [child for child in self._children.values() if child.process.gate]
        _end([child for child in self._children.values() if not child.process.gate], began + self._stop_seconds)
        for gate in reversed(gates):
            _end([gate], began + self._stop_seconds + GATE_SECONDS)
        for child in reversed(self._children.values()):
            if child.process.after is not None:
                child.process.after()
            child.log.close()
        self._guard.close()
        self._console.close()


def _end(children: list[Child], deadline: float) -> None:
    """Each gets its stop signal; who is still there at the deadline is killed."""
    for child in children:
        child.signal(child.process.stop_signal)
    if not _ended_by(children, lambda: time.monotonic() > deadline):
        for child in children:
            child.signal(signal.SIGKILL)
        _ended_by(children, lambda: False)


def _ended_by(children: list[Child], is_over: Callable[[], bool]) -> bool:
    while True:
        for child in children:
            child.ended()
        if all(child.pid is None for child in children):
            return True
        if is_over():
            return False
        time.sleep(0.02)
