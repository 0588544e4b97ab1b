"""The rounds of an outcome as the transcript shows them: what was said, done, answered, and by which weights."""

from dataclasses import dataclass

from apps.dashboard import hostile
from sandbox_worker.messages import Outcome, Round

LONGEST_ACTION_WORDS = 48


@dataclass(frozen=True)
class RoundView:
    index: int
    what: str
    """The action in a few words, for the outline."""
    say: str
    """What the policy wrote around the action."""
    message: str
    action: str | None
    output: str
    output_left_out: int
    output_bytes: int
    exit_code: int | None
    exit_words: str
    exit_tone: str
    truncated: bool
    version: int | None
    new_weights: bool
    same_again: bool
    model_seconds: float
    box_seconds: float
    prompt_tokens: int
    context_tokens: int
    sampled_tokens: int
    sampled_ids: str
    mean_logprob: float | None
    finish_reason: str
    split: bool

    @property
    def seconds(self) -> float:
        return self.model_seconds + self.box_seconds


def round_views(outcome: Outcome) -> list[RoundView]:
    views: list[RoundView] = []
    context, before = 0, None
    for one in outcome.rounds:
        context = (0 if one.split else context) + len(one.prompt_ids) + len(one.sampled_ids)
        views.append(_view(one, before, context))
        before = one
    return views


def _view(one: Round, before: Round | None, context: int) -> RoundView:
    output, left_out = hostile.cut(one.output)
    changed = before is not None and before.policy_version != one.policy_version
    exit_words, exit_tone = _exit(one)
    return RoundView(
        index=one.index,
        what=_what(one),
        say=_say(one),
        message=one.message,
        action=one.action,
        output=output,
        output_left_out=left_out,
        output_bytes=one.output_bytes,
        exit_code=one.exit_code,
        exit_words=exit_words,
        exit_tone=exit_tone,
        truncated=one.truncated,
        version=one.policy_version,
        new_weights=changed,
        same_again=before is not None and one.action is not None and before.action == one.action,
        model_seconds=one.model_seconds,
        box_seconds=one.box_seconds,
        prompt_tokens=len(one.prompt_ids),
        context_tokens=context,
        sampled_tokens=len(one.sampled_ids),
        sampled_ids=" ".join(map(str, one.sampled_ids)),
        mean_logprob=sum(one.logprobs) / len(one.logprobs) if one.logprobs else None,
        finish_reason=one.finish_reason,
        split=one.split,
    )


def _what(one: Round) -> str:
    if one.action is None:
        return "submit" if one.finish_reason != "length" else "cut off"
    first = one.action.strip().splitlines()[0] if one.action.strip() else "empty command"
    return hostile.visible(first)[:LONGEST_ACTION_WORDS]


def _say(one: Round) -> str:
    """The message without the command that stands in the block below it."""
    text = one.message
    if one.action:
        text = text.replace(one.action, "", 1)
    lines = [line for line in text.splitlines() if not line.strip().startswith("```")]
    return "\n".join(lines).strip()


_FAILED_ENDS = {
    "timed_out": "timed out",
    "out_of_memory": "out of memory",
    "disk_full": "disk full",
    "pid_limit": "no more processes",
    "output_limit": "printed too much",
}


def _exit(one: Round) -> tuple[str, str]:
    if one.end in _FAILED_ENDS:
        return _FAILED_ENDS[one.end], "fail"
    if one.end == "signalled":
        return f"killed, exit {one.exit_code}" if one.exit_code is not None else "killed", "fail"
    if one.exit_code is None:
        return "", "idle"
    return f"exit {one.exit_code}", "ok" if one.exit_code == 0 else "fail"
