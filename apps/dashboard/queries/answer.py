"""What a person came to learn of a run, as one sentence; honest about what is not known yet."""

from apps.dashboard import words
from apps.dashboard.queries.steps import Evaluations
from apps.dashboard.queries.tiles import direction, grpo_alone, paired, points_interval
from apps.runs.models import Run


def answer(run: Run, found: Evaluations, *, sft: int, grpo: int) -> tuple[str, str]:
    """(the strong part, the rest)."""
    if run.kind == "admission":
        return "This run proves tasks.", "The reference solution must pass, and doing nothing must fail."
    if found.last is None:
        return _before(run, found)
    if run.kind == "evaluation":
        return _measured(found)
    difference = paired(found)
    if difference is None:
        strong, rest = _measured(found)
        made = _made(sft, grpo)
        return (
            strong,
            f"{rest} {made[0].upper()}{made[1:]} since then; the next evaluation will show whether they helped.",
        )
    return _compared(found, sft, grpo)


def _before(run: Run, found: Evaluations) -> tuple[str, str]:
    if run.state == "queued":
        return "The run waits in the queue.", "It begins with an evaluation of version 0, the policy as it is."
    if run.state in ("failed", "cancelled", "finished"):
        return "No evaluation finished.", "So nothing can be said of this run's policy."
    opened = next((one for one in found.every if one.state == "running"), None)
    if opened is None:
        return "No evaluation has finished yet.", ""
    return (
        "The start is being measured.",
        f"Version {opened.version} plays {words.plural(opened.tries, 'try', 'tries')} at each held-out task.",
    )


def _measured(found: Evaluations) -> tuple[str, str]:
    last = found.last
    if last is None:
        return "", ""
    bounds = words.interval(last.low, last.high)
    strong = f"Version {last.version} solves {words.percent(last.estimate)} % {bounds} of held-out tries."
    return strong, f"{last.solved} of {last.started} tries at {last.tasks} tasks."


def _compared(found: Evaluations, sft: int, grpo: int) -> tuple[str, str]:
    difference = paired(found)
    first, last = found.first, found.last
    if difference is None or first is None or last is None:
        return "", ""
    interval = difference.interval
    way = {"up": "rose", "down": "fell", "none": "did not change beyond doubt:"}[direction(interval)]
    span = f"from {words.percent(first.estimate)} % to {words.percent(last.estimate)} %"
    strong = f"Held-out completion {way} {span}."
    change = f"{words.points(interval.estimate)} points {points_interval(interval)}"
    looks = "; not corrected for repeated looks" if len(found.held_out) > 2 else ""
    rest = (
        f"{change}, paired on {interval.n} tasks: {difference.better} better, {difference.worse} worse, "
        f"{difference.tied} tied. Version {last.version} against version {first.version}, "
        f"after {_made(sft, grpo)}{looks}."
    )
    return strong, f"{rest}{_grpo_alone(found)}"


def _grpo_alone(found: Evaluations) -> str:
    difference = grpo_alone(found)
    if difference is None or found.warm is None:
        return ""
    interval = difference.interval
    change = f"{words.points(interval.estimate)} points {points_interval(interval)}"
    return f" GRPO alone: {change}, against version {found.warm.version} after the warm start."


def _made(sft: int, grpo: int) -> str:
    parts = [f"{words.plural(sft, 'SFT step')}"] if sft else []
    if grpo or not sft:
        parts.append(words.plural(grpo, "GRPO step"))
    return " and ".join(parts)
