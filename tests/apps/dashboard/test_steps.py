"""Long series are thinned honestly."""

from apps.dashboard.queries.steps import table, thinned


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
