"""Geometry of the marks that the server draws."""

from apps.dashboard import marks


def test_a_sparkline_breaks_where_a_value_is_missing() -> None:
    assert marks.spark([0.0, 1.0, None, 0.5]).count("M") == 2


def test_one_value_makes_no_line() -> None:
    assert marks.spark([0.5]) == ""
    assert marks.spark([]) == ""


def test_a_flat_series_is_a_flat_line() -> None:
    assert marks.spark([2.0, 2.0]) == "M0.0 18.0 L96.0 18.0"


def test_the_parts_of_a_bar_fill_it() -> None:
    spans = marks.stack([(3, "a", ""), (0, "b", ""), (1, "c", "")])
    assert [(one.x, one.width) for one in spans] == [("0.00%", "75.00%"), ("75.00%", "25.00%")]


def test_an_empty_bar_has_no_parts() -> None:
    assert marks.stack([(0, "a", "")]) == []


def test_ticks_are_round_and_few() -> None:
    for total in (0.004, 1.6, 47.0, 132.0, 86_400.0):
        found = marks.ticks(total)
        assert 2 <= len(found) <= 8
        assert found[0] == ("0.00%", 0.0)


def test_a_length_never_leaves_its_scale() -> None:
    assert marks.pct(1.7) == "100.00%"
    assert marks.pct(-0.1) == "0.00%"
