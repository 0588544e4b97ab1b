import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.boxes import host, scenarios
from benchmarks.boxes.contract import Arm, Box, Done


class FakeBox(Box):
    """On the host. Its commands end where their limit is up, and take their descendants with them only if asked."""

    def __init__(self, arm: "Fake") -> None:
        self._arm = arm

    def run(self, script: str, *, seconds: float) -> Done:
        self._arm.scripts.append(script)
        process = subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdout is not None
        with process.stdout as printed:
            size = 0 if self._arm.blind else len(printed.read())
        try:
            return Done(process.wait(seconds), size)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return Done(124, 0, timed_out=True)

    def stop(self) -> None:
        self._arm.stops += 1


class Fake(Arm):
    def __init__(self, fails: Callable[[int], bool] = lambda number: False, *, blind: bool = False) -> None:
        """fails: which starts, by their number. blind: reads no output."""
        self.starts = self.stops = self.settled = 0
        self.scripts: list[str] = []
        self.blind = blind
        self._fails = fails

    def start(self) -> Box:
        self.starts += 1
        if self._fails(self.starts):
            raise OSError("no box")
        return FakeBox(self)

    def settle(self, at_once: int) -> None:
        self.settled += 1

    def close(self) -> None:
        return


def test_first_commands_come_in_waves_from_a_rested_arm_and_every_box_is_stopped() -> None:
    arm = Fake()
    batch = scenarios.first_commands(arm, at_once=2, count=6)
    assert (arm.settled, arm.starts, arm.stops) == (3, 6, 6)
    assert [len(batch.samples[f"{metric}, 2 at once"]) for metric in ("first command", "stop")] == [6, 6]


def test_a_start_that_fails_is_counted_in_its_words() -> None:
    batch = scenarios.first_commands(Fake(lambda number: number == 2), at_once=1, count=3)
    assert batch.failures["first command, 1 at once"] == ["OSError: no box"]
    assert len(batch.samples["first command, 1 at once"]) == 2


def test_a_lifecycle_is_three_commands() -> None:
    arm = Fake()
    batch = scenarios.lifecycles(arm, at_once=2, count=4)
    assert (arm.starts, len(arm.scripts), arm.stops, len(batch.samples["lifecycle, 2 at once"])) == (4, 12, 4, 4)


def test_survivors_of_a_time_limit_are_found_counted_and_ended() -> None:
    batch = scenarios.overshoots(arm := Fake(blind=True), count=1)
    assert (len(batch.samples["timeout overshoot"]), batch.samples["survivors"]) == (1, [2.0])
    assert host.processes_with(arm.scripts[0].split()[-3].removesuffix("-itself")) == []


def test_a_limit_that_is_not_kept_is_a_failure() -> None:
    class Endless(FakeBox):
        def run_limited(self, script: str, *, seconds: float) -> Done:
            return Done(0, 0)

    class Unlimited(Fake):
        def start(self) -> Box:
            return Endless(self)

    batch = scenarios.overshoots(Unlimited(), count=1)
    assert batch.failures["timeout overshoot"] == [
        "WrongEndError: a command past its limit ended with exit code 0",
    ]  # fmt: skip


def test_a_flood_is_measured_by_what_was_told_and_what_it_took() -> None:
    batch = scenarios.flood(Fake(), size=2**20)
    assert batch.samples["count told of a flood"] == [2.0**20]
    assert batch.samples["growth at a flood of output"][0] >= 0


def test_an_arm_without_sessions_is_measured_without() -> None:
    batch = scenarios.round_trips(Fake(), count=3)
    assert {metric: len(samples) for metric, samples in batch.samples.items()} == {"exec true": 3}


def test_the_most_boxes_at_once_are_seen() -> None:
    gauge = scenarios.Gauge()
    for change in (1, 1, -1, 1, 1, -1):
        gauge.add(change)
    assert (gauge.now, gauge.most) == (2, 3)


def is_named(pid: int, name: str) -> bool:
    return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(name.encode())


def test_memory_is_that_of_the_whole_tree() -> None:
    marker = f"assay-test-{uuid.uuid4().hex}"
    with subprocess.Popen(["bash", "-c", f"(exec -a {marker} sleep 60) & wait"]) as process:
        try:
            while not (below := [pid for pid in host.descendants(process.pid) if is_named(pid, marker)]):
                time.sleep(0.01)
            assert {process.pid, *below} == set(host.processes_with(marker))
            assert host.memory_of_trees([process.pid]) > host.memory_of_trees(below) > 0
        finally:
            host.kill_all_with(marker)
            process.wait(10)


def test_a_process_that_only_waits_to_be_noticed_is_not_alive() -> None:
    with subprocess.Popen(["true"]) as process:
        while host.is_alive(process.pid):
            time.sleep(0.01)
        assert process.wait(10) == 0


@pytest.mark.parametrize("name", ["session", "orphan", "itself"])
def test_the_stubborn_command_names_all_its_sleepers(name: str) -> None:
    assert f"exec -a marker-{name} sleep 300" in scenarios.stubborn("marker")
