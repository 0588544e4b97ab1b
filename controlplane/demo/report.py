"""The numbers of a demo run: held-out completion in its three phases, the paired difference, and what it cost."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Sum
from rich.table import Table

from apps.buffer.ledger import ledger
from apps.evaluation.compare import compare
from apps.evaluation.models import Evaluation
from apps.pipeline.learn import train_seconds
from apps.runs.models import Run
from apps.training.models import live_steps
from apps.trajectories.models import Trajectory


@dataclass(frozen=True)
class Phases:
    """The held-out (or unseen) evaluations that a demo compares."""

    base: Evaluation
    warm: Evaluation
    final: Evaluation | None
    """None where GRPO made no step: there is nothing after it."""


def phases(run: Run, suite: str) -> Phases | None:
    """None while one of them is missing."""
    done = Evaluation.objects.of(run).finished().filter(suite=suite).order_by("version")
    base, warm = done.filter(why="first").first(), done.filter(why="warm").first()
    stepped = live_steps(run, "grpo") > 0
    final = done.filter(version=run.policy_version).last() if stepped else None
    if base is None or warm is None or (stepped and final is None):
        return None
    return Phases(base, warm, final)


def numbers(run: Run, *, peak_rss_bytes: int | None) -> dict[str, Any]:
    """What --json writes. n/a is null."""
    balance = ledger(run)
    return {
        "run": run.pk,
        "formula": run.formula,
        "held_out": _suite(run, "held-out"),
        "unseen": _suite(run, "unseen"),
        "train_seconds": train_seconds(run),
        "learner_steps": live_steps(run, "sft") + live_steps(run, "grpo"),
        "sft_steps": live_steps(run, "sft"),
        "grpo_steps": live_steps(run, "grpo"),
        "sampled_tokens": balance.recorded_tokens,
        "prompt_tokens": Trajectory.objects.of(run).sampled().aggregate(n=Sum("prompt_tokens"))["n"] or 0,
        "sandbox_seconds": Trajectory.objects.of(run).aggregate(n=Sum("sandbox_seconds"))["n"] or 0.0,
        "peak_rss_bytes": peak_rss_bytes,
        "ledger_exact": balance.exact,
    }


def _suite(run: Run, suite: str) -> dict[str, Any] | None:
    found = phases(run, suite)
    if found is None:
        return None
    newest = found.final or found.warm
    by_phase = {"base": found.base, "warm": found.warm, "final": found.final}
    return {
        **{phase: evaluation.estimate if evaluation else None for phase, evaluation in by_phase.items()},
        "paired_difference": _difference(found),
        "tasks": newest.tasks,
        "attempts": newest.attempts,
        "tries": newest.tries,
        "by_family": {
            family: {phase: _of_family(evaluation, family) for phase, evaluation in by_phase.items()}
            | {"two_rounds": newest.result["by_family"][family]["two_rounds"]}
            for family in sorted(newest.result["by_family"])
        },
        "two_rounds": {phase: _estimate(evaluation, "two_rounds") for phase, evaluation in by_phase.items()},
        "one_round": {phase: _estimate(evaluation, "one_round") for phase, evaluation in by_phase.items()},
        "solved_within": {phase: _within(evaluation) for phase, evaluation in by_phase.items()},
    }


def _difference(found: Phases) -> dict[str, Any]:
    of = {"of": "final minus warm: GRPO alone"}
    if found.final is None:
        return of | dict.fromkeys(("estimate", "low", "high", "better", "worse", "tied"))
    paired = compare(found.final, found.warm)
    return of | {
        "estimate": paired.interval.estimate,
        "low": paired.interval.low,
        "high": paired.interval.high,
        "better": paired.better,
        "worse": paired.worse,
        "tied": paired.tied,
    }


def _of_family(evaluation: Evaluation | None, family: str) -> float | None:
    found: dict[str, Any] = evaluation.result["by_family"].get(family, {}) if evaluation else {}
    return found.get("estimate")


def _estimate(evaluation: Evaluation | None, part: str) -> float | None:
    found = evaluation.result.get(part) if evaluation else None
    return found["estimate"] if found else None


def _within(evaluation: Evaluation | None) -> dict[str, float | None]:
    rounds = evaluation.result.get("rounds") if evaluation else None
    return {str(row["rounds"]): row["estimate"] for row in rounds["within"]} if rounds else {}


def closing_table(run: Run, values: dict[str, Any]) -> Table:
    """The table at the end of the demo."""
    table = Table(title=f"{run.name}: {values['sft_steps']} SFT steps, {values['grpo_steps']} GRPO steps")
    table.add_column("")
    for head in ("as it comes", "after warm start", "after GRPO", "GRPO alone, paired"):
        table.add_column(head, justify="right")
    for title, suite in (("held-out completion", "held_out"), ("unseen families", "unseen")):
        row = values[suite]
        if row is not None:
            table.add_row(title, *(_percent(row[phase]) for phase in ("base", "warm", "final")), _points(row))
    held_out = values["held_out"]
    if held_out is not None:
        for title, part in (("  one-round families", "one_round"), ("  two-round families", "two_rounds")):
            table.add_row(title, *(_percent(held_out[part][phase]) for phase in ("base", "warm", "final")), "")
        for k in sorted(held_out["solved_within"]["warm"]):
            shares = (held_out["solved_within"][phase].get(k) for phase in ("base", "warm", "final"))
            table.add_row(
                f"  solved within {k} round{'s' if k != '1' else ''}", *(_percent(share) for share in shares), ""
            )
    return table


def closing_lines(values: dict[str, Any]) -> list[str]:
    """What the table does not say."""
    held_out = values["held_out"]
    tasks = f"{held_out['tasks']} held-out tasks x {held_out['tries']} tries; " if held_out else ""
    exact = "exact" if values["ledger_exact"] else "NOT exact"
    peak = values["peak_rss_bytes"]
    memory = "n/a" if peak is None else f"{peak / 2**30:.1f} GiB"
    cost = (
        f"{_clock(values)}; {values['sampled_tokens']:,} tokens sampled in all, "
        f"{values['prompt_tokens']:,} prompt tokens, {values['sandbox_seconds']:,.0f} sandbox-seconds, "
        f"peak memory {memory}; ledger {exact}."
    )
    return [f"{tasks}intervals are 95 %, paired by task, clustered by family.", cost]


def _clock(values: dict[str, Any]) -> str:
    if (seconds := values["train_seconds"]) is None:
        return "GRPO did not begin"
    return f"GRPO took {seconds:.0f} s" + ("" if values["grpo_steps"] else " and made no step")


def _percent(share: float | None) -> str:
    return "n/a" if share is None else f"{share * 100:.1f} %"


def _points(row: dict[str, Any]) -> str:
    found = row["paired_difference"]
    if found["estimate"] is None:
        return "n/a"
    interval = "" if found["low"] is None else f" [{found['low'] * 100:+.1f}, {found['high'] * 100:+.1f}]"
    return f"{found['estimate'] * 100:+.1f} points{interval}"
