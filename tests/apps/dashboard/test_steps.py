"""Long series are thinned honestly."""

from apps.buffer.models import Batch
from apps.dashboard.queries.steps import step_table, table, thinned
from apps.training.models import LearnerStep


def test_a_short_table_keeps_every_row() -> None:
    full = table(("version", "loss"), [[1, 0.5], [2, 0.25]])
    assert thinned(full, most=2)["rows"] == full["rows"]
    assert thinned(full, most=2)["resolution"] == 1


def test_a_long_table_becomes_means_and_says_how_wide() -> None:
    full = table(("version", "parent", "kind", "loss"), [[v, v - 1, "grpo", float(v)] for v in range(9)])
    found = thinned(full, most=4)
    assert (found["resolution"], found["raw"]) == (4, 9)
    assert found["rows"] == [[3, -1, "grpo", 1.5], [7, 3, "grpo", 5.5], [8, 7, "grpo", 8.0]]


def test_buckets_do_not_move_as_rows_arrive() -> None:
    rows = [[v, float(v)] for v in range(12)]
    before = thinned(table(("version", "loss"), rows[:11]), most=4)["rows"]
    after = thinned(table(("version", "loss"), rows), most=4)["rows"]
    assert before[:2] == after[:2]


def test_what_is_missing_is_not_counted_as_zero() -> None:
    found = thinned(table(("version", "kl"), [[0, None], [1, 0.5], [2, None], [3, None], [4, 0.1]]), most=2)
    assert found["rows"][0] == [3, 0.5]


def test_flat_groups_are_a_share_of_all_that_the_batch_looked_at() -> None:
    rows = [_flat_share("grpo", groups=6, flat=2), _flat_share("grpo", groups=6, flat=0)]
    assert rows == [0.25, 0.0]


def test_a_share_of_no_groups_is_not_defined() -> None:
    assert _flat_share("grpo", groups=0, flat=0) is None
    assert _flat_share("sft", groups=6, flat=2) is None


def _flat_share(kind: str, *, groups: int, flat: int) -> object:
    batch = Batch(kind=kind, groups=groups, flat_groups=flat)
    found = step_table([LearnerStep(batch=batch, kind=kind, version=1, parent_version=0)])
    return found["rows"][0][found["columns"].index("flat_share")]
