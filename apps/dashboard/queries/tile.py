"""One key number as a page shows it, already in words."""

from dataclasses import dataclass

MOST_NOTES = 4
"""Lines that a page keeps for the notes of a tile: what comes later finds its place, what goes leaves no old words."""


@dataclass(frozen=True)
class Tile:
    """One number. `value` is 'n/a' with its reason in the notes where it is not defined."""

    label: str
    value: str
    unit: str = ""
    ci: str = ""
    notes: tuple[str, ...] = ()
    change: str = ""
    change_class: str = "delta-none"
    """Green or red only where the interval leaves out 0."""
    change_note: str = ""
    alone: str = ""
    """What GRPO alone changed, after the warm start."""
    alone_class: str = "delta-none"
    alone_note: str = ""
    spark: str = ""
    spark_says: str = ""
    title: str = ""
    """The definition."""
    link: str = ""
    """Address of what it counts."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The notes, and empty lines up to the most."""
        return (*self.notes, *[""] * (MOST_NOTES - len(self.notes)))
