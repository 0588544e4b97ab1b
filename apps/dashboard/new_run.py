"""The new-run form: which settings it shows, and what a person typed as a config, with every error named at once."""

import re
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from apps.runs.config import BadSetting, ConfigError, RunConfig, parse_config
from apps.runs.presets import PRESETS, Preset


@dataclass(frozen=True)
class Setting:
    """One field of the config as the form shows it."""

    name: str
    label: str
    unit: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Group:
    title: str
    settings: tuple[Setting, ...]
    folded: bool = False


GROUPS = (
    Group(
        "Learning",
        (
            Setting("grpo_steps", "GRPO steps", hint="learner steps; each makes a policy version"),
            Setting("groups_per_step", "Groups a step", hint="tasks that one step learns from"),
            Setting("group_size", "Group size", "tries", "tries of one task, compared with each other"),
            Setting("learning_rate", "Learning rate, GRPO"),
            Setting("max_staleness", "Staleness limit", "versions", "older samples are discarded and counted"),
            Setting("temperature", "Sampling temperature"),
        ),
    ),
    Group(
        "Warm start",
        (
            Setting("sft_steps", "SFT steps", hint="0: no warm start"),
            Setting("sft_batch", "Traces a step"),
            Setting("sft_learning_rate", "Learning rate, SFT"),
            Setting("sft_traces_per_family", "Traces a family", hint="runs of the reference solution, really executed"),
        ),
    ),
    Group(
        "Evaluation",
        (
            Setting("evaluation_tries", "Tries a task", hint="at the first, the warm and the last version"),
            Setting("interim_tries", "Tries a task, in between"),
            Setting("evaluation_every", "Evaluate every", "versions", "0: only first, warm and last"),
        ),
    ),
    Group(
        "Limits",
        (
            Setting("round_tokens", "Tokens a round"),
            Setting("context_tokens", "Context", "tokens"),
            Setting(
                "command_seconds", "Time for a command", "s", "of the policy; a reference has its task's whole time"
            ),
            Setting("max_seconds", "Time for GRPO", "s", "empty: none; ends the training cleanly"),
            Setting("max_sampled_tokens", "Budget", "tokens", "sampled; empty: none; ends the training cleanly"),
            Setting("concurrency", "Attempts in flight", hint="at most"),
            Setting("attempts", "Attempts a rollout", hint="repeats follow infra failures only"),
        ),
    ),
    Group(
        "More of the optimiser",
        (
            Setting("clip_low", "Clip below"),
            Setting("clip_high", "Clip above"),
            Setting("importance_cap", "Importance cap"),
            Setting("max_grad_norm", "Gradient norm, clipped at"),
            Setting("beta_1", "Adam beta 1"),
            Setting("beta_2", "Adam beta 2"),
            Setting("weight_decay", "Weight decay"),
            Setting("sft_warmup_steps", "SFT warm-up", "steps"),
            Setting("resumable_every", "Resumable every", "versions", "checkpoints with optimiser state"),
            Setting("seed", "Seed"),
        ),
        folded=True,
    ),
)
LABELS = {setting.name: setting.label for group in GROUPS for setting in group.settings} | {
    "name": "Name",
    "task_set": "Task set",
    "policy": "Policy",
    "preset": "Start from",
    "endpoint": "Endpoint",
}
DEFAULT_PRESET = next(iter(PRESETS))


@dataclass(frozen=True)
class FieldError:
    """Which field stands in the way, its value as it was given, and the way out."""

    field: str
    value: str
    way_out: str

    @property
    def label(self) -> str:
        return LABELS.get(self.field, self.field)


@dataclass(frozen=True)
class Typed:
    """What a person typed, as strings for the form and as a config if it is one."""

    preset: Preset
    values: Mapping[str, str]
    config: RunConfig | None
    errors: tuple[FieldError, ...] = field(default=())

    def changed(self) -> list[tuple[str, str, str]]:
        """(label, preset's value, typed value) of what differs from the preset."""
        before = texts(self.preset.config)
        return [
            (LABELS[n], before[n] or "none", text or "none") for n, text in self.values.items() if text != before[n]
        ]


def preset_named(name: str | None) -> Preset:
    return PRESETS.get(name or "", PRESETS[DEFAULT_PRESET])


def texts(config: RunConfig) -> dict[str, str]:
    """Each setting as the form writes it; empty for none."""
    return {name: _text(value) for name, value in msgspec.to_builtins(config).items()}


def from_preset(preset: Preset) -> Typed:
    return Typed(preset, texts(preset.config), preset.config)


def parse(posted: Mapping[str, Any]) -> Typed:
    """Read every field; fields that were not sent keep the preset's value."""
    preset = preset_named(posted.get("preset"))
    shown = texts(preset.config)
    values = {name: str(posted.get(name, shown[name])).strip() for name in shown}
    parsed: dict[str, Any] = {}
    errors: list[FieldError] = []
    for name, text in values.items():
        try:
            parsed[name] = _value(name, text)
            parse_config({name: parsed[name]})
        except ConfigError as error:
            errors += [FieldError(name, text, plainly(bad.way_out)) for bad in error.bad]
    return Typed(preset, values, None if errors else parse_config(parsed), tuple(errors))


_HINTS = get_type_hints(RunConfig, include_extras=True)


def _value(name: str, text: str) -> int | float | None:
    """The number that the text is, of the setting's own type. Raises ConfigError."""
    kinds = _kinds(_HINTS[name])
    if not text:
        if type(None) in kinds:
            return None
        raise ConfigError(BadSetting(name, text, "Give a number."))
    try:
        return float(text) if float in kinds else int(text.replace(",", ""))
    except ValueError:
        wanted = "number" if float in kinds else "whole number"
        raise ConfigError(BadSetting(name, text, f"This is no {wanted}.")) from None


_BOUND = re.compile(r"^Expected `(int|float)(?: \| null)?`(?: (>=|<=|>|<) (\S+?))?\.?$")
_BOUNDS = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}


def plainly(way_out: str) -> str:
    """What the decoder says of a bound, as a person would."""
    found = _BOUND.match(way_out)
    if found is None:
        return way_out
    kind = {"int": "a whole number", "float": "a number"}[found[1]]
    return f"Use {kind} {_BOUNDS[found[2]]} {found[3].rstrip('.')}." if found[2] else f"Use {kind}."


def _kinds(hint: Any) -> set[type]:
    if get_origin(hint) is Annotated:
        return _kinds(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        return set().union(*(_kinds(part) for part in get_args(hint)))
    return {hint}


def _text(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
