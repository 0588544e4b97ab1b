"""The ledger of a run in words and as a bar: where every attempt and every sampled token went."""

from dataclasses import dataclass

from apps.buffer.ledger import Ledger, ledger
from apps.buffer.states import REASONS
from apps.dashboard import marks
from apps.runs.models import Run


@dataclass(frozen=True)
class LedgerLine:
    name: str
    count: int
    share: float | None
    note: str
    swatch: str = ""
    rest: bool = False
    """Part of the line above."""


@dataclass(frozen=True)
class LedgerView:
    exact: bool
    problems: tuple[str, ...]
    attempts: list[LedgerLine]
    claimed: int
    tokens: list[LedgerLine]
    recorded_tokens: int
    sft_tokens: int
    bar: list[marks.Span]
    bar_says: str


def ledger_view(run: Run) -> LedgerView:
    found = ledger(run)
    tokens = _tokens(found)
    whole = [line for line in tokens if not line.rest]
    paints = {"k-1": "l-trained", "k-2": "l-out", "k-3": "l-flight", "k-5": "l-waiting", "k-plan": "l-planned"}
    return LedgerView(
        exact=found.exact,
        problems=found.problems,
        attempts=_attempts(found),
        claimed=found.claimed,
        tokens=tokens,
        recorded_tokens=found.recorded_tokens,
        sft_tokens=found.sft_tokens,
        bar=marks.stack([(line.count, paints[line.swatch], f"{line.name}: {line.count:,}") for line in whole]),
        bar_says=", ".join(f"{line.name} {100 * (line.share or 0):.1f} %" for line in whole),
    )


def _share(count: int, total: int) -> float | None:
    return count / total if total else None


def _attempts(found: Ledger) -> list[LedgerLine]:
    parts = (
        ("Recorded", found.recorded, "whole in the object store, once each"),
        ("In flight", found.active, "held by a worker"),
        ("Lost", found.lost, "their worker went away or the deadline passed; tried again"),
        ("Cancelled", found.cancelled, "stopped with the run"),
    )
    return [LedgerLine(name, count, _share(count, found.claimed), note) for name, count, note in parts]


def _tokens(found: Ledger) -> list[LedgerLine]:
    total = found.recorded_tokens
    discarded = sum(found.discarded_tokens.values())

    def line(name: str, count: int, note: str, swatch: str = "", rest: bool = False) -> LedgerLine:
        return LedgerLine(name, count, _share(count, total), note, swatch, rest)

    reasons = [
        line(reason, count, REASONS.get(reason, ""), rest=True)
        for reason, count in sorted(found.discarded_tokens.items(), key=lambda one: -one[1])
    ]
    return [
        line("Trained on", found.trained_tokens, "in GRPO steps of the live branch", "k-1"),
        line("Evaluation and controls", found.evaluation_tokens, "measured with, never trained on", "k-3"),
        line("Discarded", discarded, "each with one reason" if discarded else "", "k-2"),
        *reasons,
        line("Handed to the learner", found.handed_tokens, "in a step that is not finished", "k-plan"),
        line("Waiting in the buffer", found.buffered_tokens, "graded or about to be", "k-5"),
    ]
