"""The numbers of the run page's charts as tables of words, for who does not see the charts."""

from collections.abc import Sequence
from dataclasses import dataclass

from apps.dashboard import words
from apps.dashboard.queries.steps import Table

MOST = 200
"""Rows that a page shows, the newest."""

Row = tuple[str, ...]


@dataclass(frozen=True)
class Figure:
    """One chart's table."""

    caption: str
    heads: Row
    rows: list[Row]
    left_out: int


def figures(tables: dict[str, Table], formula: str) -> dict[str, Figure]:
    """By the name of the chart."""
    return {
        "completion": _suite("Held-out completion by version", tables["held_out"]),
        "unseen": _suite("Completion on unseen families by version", tables["unseen"]),
        "rounds": _rounds(tables["rounds_start"], tables["rounds_now"]),
        "reward": _reward(tables["train"], formula),
        "staleness": _figure(
            "Samples by their staleness at use",
            ("Versions behind", "Samples"),
            [(str(versions), words.count(samples)) for versions, samples in tables["staleness"]["rows"]],
        ),
    }


def _figure(caption: str, heads: Row, rows: Sequence[Row]) -> Figure:
    return Figure(caption, heads, list(rows[-MOST:]), max(0, len(rows) - MOST))


def _suite(caption: str, table: Table) -> Figure:
    rows = [
        (str(version), _rate(rate, low, high), f"{solved:,} of {tries:,}")
        for version, rate, low, high, solved, tries in table["rows"]
    ]
    return _figure(caption, ("Version", "Completion %, 95 % interval", "Solved"), rows)


def _rounds(start: Table, now: Table) -> Figure:
    began = {row[0]: _rate(*row[1:4]) for row in start["rows"]}
    rows = [(str(row[0]), began.get(row[0], words.NOT_DEFINED), _rate(*row[1:4])) for row in now["rows"]]
    heads = ("Rounds", "Start %, 95 % interval", "Now %, 95 % interval")
    return _figure("Share of graded held-out tries solved within k rounds", heads, rows)


def _reward(table: Table, formula: str) -> Figure:
    rows = [
        (str(version), words.number(reward), f"{solved:,} of {tries:,}")
        for version, solved, tries, _, reward in table["rows"]
    ]
    return _figure(f"Tries to learn from by version: mean {formula}", ("Version", "Mean reward", "Solved"), rows)


def _rate(rate: float | None, low: float | None, high: float | None) -> str:
    return f"{words.percent(rate)} {words.interval(low, high)}".rstrip()
