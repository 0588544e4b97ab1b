import io
from typing import Any

import pytest
from rich.console import Console

from apps.lifecycle.models import Event
from apps.runs.models import Run
from controlplane.demo.report import closing_lines, closing_table, numbers
from tests.apps.factories import at, running
from tests.controlplane.demo.runs import finished_demo
from wire.store import FolderStore

pytestmark = pytest.mark.django_db


def table_text(run: Run, values: dict[str, Any]) -> str:
    console = Console(file=io.StringIO(), width=200, record=True)
    console.print(closing_table(run, values))
    return console.export_text()


def test_the_numbers_of_a_demo_by_hand(store: FolderStore) -> None:
    found = numbers(finished_demo(store), peak_rss_bytes=2**30)
    held_out = found["held_out"]
    assert (held_out["base"], held_out["warm"], held_out["final"]) == (0.0, 0.5, 1.0)
    assert {"estimate", "low", "high"} <= set(held_out["paired_difference"])
    # One task was solved before GRPO and after it, the other after it only.
    assert held_out["paired_difference"]["estimate"] == pytest.approx(0.5)
    assert (held_out["tasks"], held_out["attempts"], held_out["tries"]) == (2, 4, 2)
    assert {name: (row["base"], row["warm"], row["final"]) for name, row in held_out["by_family"].items()} == {
        "family-0": (0.0, 1.0, 1.0),
        "family-1": (0.0, 0.0, 1.0),
    }
    # The first try was claimed at 0 s, the fifth step ended at 150 s.
    assert (found["train_seconds"], found["learner_steps"], found["sft_steps"], found["grpo_steps"]) == (150.0, 5, 2, 3)
    assert (found["peak_rss_bytes"], found["ledger_exact"]) == (2**30, True)


def test_where_grpo_made_no_step_nothing_is_said_to_come_of_it(store: FolderStore) -> None:
    run = finished_demo(store, grpo_steps=0)
    Event.objects.filter(kind="run.training_ended").update(at=at(60))
    values = numbers(run, peak_rss_bytes=None)
    held_out = values["held_out"]
    assert (held_out["base"], held_out["warm"], held_out["final"]) == (0.0, 0.5, None)
    difference = held_out["paired_difference"]
    assert {name: value for name, value in difference.items() if value is not None} == {
        "of": "final minus warm: GRPO alone"
    }
    assert {row["final"] for row in held_out["by_family"].values()} == {None}
    assert (held_out["tasks"], held_out["attempts"], values["grpo_steps"]) == (2, 4, 0)
    # The first try was claimed at 0 s.
    assert values["train_seconds"] == 60.0
    said = table_text(run, values)
    (row,) = [line for line in said.splitlines() if "held-out completion" in line]
    assert "points" not in said
    assert row.count("n/a") == 2
    assert closing_lines(values)[1].startswith("GRPO took 60 s and made no step; ")


def test_the_clock_of_a_grpo_that_did_not_begin_says_nothing(store: FolderStore) -> None:
    values = numbers(running(), peak_rss_bytes=None)
    assert values["train_seconds"] is None
    assert closing_lines(values)[1].startswith("GRPO did not begin; ")


def test_a_run_without_its_evaluations_has_no_completion(store: FolderStore) -> None:
    found = numbers(running(), peak_rss_bytes=None)
    assert (found["held_out"], found["unseen"], found["learner_steps"], found["peak_rss_bytes"]) == (
        None,
        None,
        0,
        None,
    )


def test_the_closing_table_says_the_three_phases_and_the_difference(store: FolderStore) -> None:
    run = finished_demo(store)
    values = numbers(run, peak_rss_bytes=3 * 2**29)
    said = table_text(run, values)
    (row,) = [line for line in said.splitlines() if "held-out completion" in line]
    assert "demo: 2 SFT steps, 3 GRPO steps" in said
    assert [part in row for part in ("0.0 %", "50.0 %", "100.0 %", "+50.0 points")] == [True] * 4
    assert "2 held-out tasks x 2 tries" in closing_lines(values)[0]
    assert "peak memory 1.5 GiB; ledger exact" in closing_lines(values)[1]


def test_a_peak_that_nobody_measured_is_not_available(store: FolderStore) -> None:
    values = numbers(finished_demo(store), peak_rss_bytes=None)
    assert "peak memory n/a;" in closing_lines(values)[1]
