from dataclasses import replace

import pytest

from benchmarks.boxes.figures import BUBBLEWRAP, DOCKER, DOCKER_WARM, SDK, Figures, rank, targets
from benchmarks.boxes.scenarios import Batch
from benchmarks.result import Measurement, Target

EIGHT = "first command, 8 at once"
GOOD = [
    Measurement("first command, 1 at once", DOCKER, 200, "ms", 9, 200, 300),
    Measurement("first command, 1 at once", SDK, 220, "ms", 9, 220, 300),
    Measurement("first command, 1 at once", DOCKER_WARM, 5, "ms", 9, 5, 9),
    Measurement(EIGHT, BUBBLEWRAP, 30, "ms", 9, 30, 90),
    Measurement(EIGHT, DOCKER, 900, "ms", 9, 900, 999),
    Measurement(EIGHT, SDK, 900, "ms", 9, 900, 999),
    Measurement("exec true", BUBBLEWRAP, 1, "ms", 9, 1, 2),
    Measurement("exec true", DOCKER, 3, "ms", 9, 3, 4),
    Measurement("lifecycle, 8 at once", BUBBLEWRAP, 120, "a second", 9),
    Measurement("lifecycle, 16 at once", BUBBLEWRAP, 80, "a second", 9),
    Measurement("memory of a live box", BUBBLEWRAP, 0.2, "MiB", 9),
    Measurement("timeout overshoot", BUBBLEWRAP, 0.01, "s", 9),
    Measurement("timeout overshoot", DOCKER, 0.02, "s", 9),
    Measurement("survivors", BUBBLEWRAP, 0, "processes", 9),
    Measurement("survivors", SDK, 2, "processes", 9),
    Measurement("left of a killed process: mounts", BUBBLEWRAP, 0, "things", 1),
    Measurement("growth at a flood of output", DOCKER, 1, "MiB", 1),
    Measurement("count told of a flood", DOCKER, 2**30, "bytes", 1),
    Measurement("first command in a burst", BUBBLEWRAP, 9, "ms", 200, 9, 9),
]


def missed(rows: list[Measurement]) -> list[str]:
    return [target.name for target in targets(rows, quick=False) if not target.met]


def changed(metric: str, arm: str, **values: float) -> list[Measurement]:
    found = [replace(row, **values) if (row.metric, row.arm) == (metric, arm) else row for row in GOOD]  # type: ignore[arg-type]
    assert found != GOOD
    return found


def named(name: str, rows: list[Measurement]) -> Target:
    return next(target for target in targets(rows, quick=False) if target.name == name)


def test_what_holds_every_target_meets_them_all() -> None:
    assert missed(GOOD) == []


def test_a_quick_run_decides_nothing() -> None:
    assert {target.met for target in targets(GOOD, quick=True)} == {None}


def test_what_was_not_measured_is_not_met() -> None:
    assert [target.met for target in targets([], quick=False)] == [False] * len(targets(GOOD, quick=False))


@pytest.mark.parametrize(
    ("metric", "arm", "values", "name"),
    [
        (EIGHT, BUBBLEWRAP, {"p50": 50}, "bubblewrap: first command p50, 8 at once"),
        (EIGHT, BUBBLEWRAP, {"p95": 151}, "bubblewrap: first command p95, 8 at once"),
        ("lifecycle, 16 at once", BUBBLEWRAP, {"value": 79.9}, "bubblewrap: lifecycles, 16 at once"),
        ("first command, 1 at once", DOCKER, {"p50": 221}, "Docker, cold: first command p50 / the plain SDK's"),
        ("timeout overshoot", DOCKER, {"value": 0.6}, "timeout overshoot, worst"),
        ("survivors", BUBBLEWRAP, {"value": 1}, "survivors of a timeout"),
        (
            "left of a killed process: mounts",
            BUBBLEWRAP,
            {"value": 1},
            "left of a killed worker after one reaper cycle",
        ),
        ("count told of a flood", DOCKER, {"value": 2**16}, "count told of 1 GiB of output"),
    ],
)
def test_each_target_is_missed_by_its_own_figure(metric: str, arm: str, values: dict[str, float], name: str) -> None:
    assert missed(changed(metric, arm, **values)) == [name]


@pytest.mark.parametrize("row", [row for row in GOOD if row.arm != SDK], ids=lambda row: f"{row.metric} {row.arm}")
def test_a_failure_misses_whatever_was_measured(row: Measurement) -> None:
    assert missed(changed(row.metric, row.arm, failures=1)) != []


def test_what_a_peer_fails_is_no_miss_of_ours() -> None:
    assert missed(changed("survivors", SDK, failures=1)) == []


def test_the_worst_of_our_arms_stands_for_them() -> None:
    assert named("timeout overshoot, worst", GOOD).value == 0.02


def test_failures_are_counted_into_n_and_never_dropped() -> None:
    figures = Figures()
    figures.add("a", Batch({"exec true": [0.001, 0.003]}, {"exec true": ["broken"]}))
    figures.fail("a", "exec true", 5)
    (row,) = figures.measurements()
    assert (row.n, row.failures, row.value, row.p95, row.unit) == (8, 6, 1.0, 3.0, "ms")


def test_an_arm_that_gave_nothing_has_no_value() -> None:
    figures = Figures()
    figures.fail("a", "does not run: no such package", 1)
    (row,) = figures.measurements()
    assert (row.value, row.n, row.failures) == (None, 1, 1)


def test_arms_stand_below_each_other_metric_by_metric() -> None:
    figures = Figures()
    for arm in ("a", "b"):
        figures.add(arm, Batch({"exec true": [1.0], "survivors": [2.0]}))
    assert [(row.metric, row.arm) for row in figures.measurements()] == [
        ("exec true", "a"), ("exec true", "b"), ("survivors", "a"), ("survivors", "b"),
    ]  # fmt: skip


def test_lifecycles_are_told_as_how_many_a_second() -> None:
    figures = Figures()
    figures.add("a", Batch({"lifecycle, 8 at once": [0.01] * 10 + [0.03] * 10}))
    (row,) = figures.measurements()
    assert row.value == pytest.approx(50)
    assert row.p50 is None


@pytest.mark.parametrize(("share", "expected"), [(0.5, 10), (0.95, 19), (1.0, 20), (0.01, 1)])
def test_a_rank_is_a_sample(share: float, expected: int) -> None:
    assert rank([float(n) for n in range(20, 0, -1)], share) == expected
