"""Named starting points for a run's config."""

from dataclasses import dataclass

from apps.runs.config import RunConfig


@dataclass(frozen=True)
class Preset:
    """A config with the reason to pick it."""

    name: str
    title: str
    explanation: str
    kind: str
    config: RunConfig
    formula: str = "all-or-nothing@1"


WARM_GRPO = RunConfig(
    sft_steps=23,
    sft_traces_per_family=10,
    grpo_steps=80,
    max_seconds=590,
    evaluation_every=20,
    interim_tries=1,
    resumable_every=20,
)
"""Ten minutes of GRPO on two cores."""

PRESETS = {
    preset.name: preset
    for preset in (
        Preset(
            "warm-grpo",
            "Warm start, then GRPO",
            "A few supervised steps on reference traces, then GRPO. For a small model that solves almost nothing yet.",
            "training",
            WARM_GRPO,
        ),
        Preset(
            "grpo",
            "GRPO alone",
            "For a policy that already solves some of the tasks: groups without any success teach nothing.",
            "training",
            RunConfig(grpo_steps=200),
        ),
        Preset(
            "control",
            "Random reward (control)",
            "The same run with a coin for a reward. It must not get better; if it does, distrust the other runs.",
            "training",
            WARM_GRPO,
            formula="coin@1",
        ),
        Preset(
            "evaluate",
            "Evaluate only",
            "Held-out and unseen tasks, several tries each, no training.",
            "evaluation",
            RunConfig(grpo_steps=0),
        ),
    )
}
