"""The typed config of a run. A revision stores it whole; every field names its unit and its bounds."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta


@dataclass(frozen=True)
class BadSetting:
    """A value that a run cannot have."""

    field: str
    value: object
    way_out: str

    def __str__(self) -> str:
        return f"{self.field} = {self.value!r}: {self.way_out}"


class ConfigError(Exception):
    """A config that a run cannot have, with every bad setting of it."""

    def __init__(self, *bad: BadSetting) -> None:
        super().__init__(" ".join(str(one) for one in bad))
        self.bad = bad


class RunConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything about how a run goes that may change between runs; task set, policy and formula are the run's own."""

    group_size: Annotated[int, Meta(ge=2, le=128)] = 8
    """Tries a task in one iteration (G)."""
    groups_per_step: Annotated[int, Meta(ge=1, le=512)] = 12
    """Groups in one learner step (B)."""
    grpo_steps: Annotated[int, Meta(ge=0, le=100_000)] = 60
    learning_rate: Annotated[float, Meta(gt=0, le=1)] = 3e-5
    clip_low: Annotated[float, Meta(gt=0, lt=1)] = 0.2
    """How far below 1 the ratio of new to old probability may go. A batch is one update, so it is 1 and nothing is
    clipped: this bound, and the one above, change nothing as long as that is so."""
    clip_high: Annotated[float, Meta(gt=0, lt=10)] = 0.2
    """How far above 1."""
    importance_cap: Annotated[float, Meta(ge=1, le=1000)] = 2.0
    max_grad_norm: Annotated[float, Meta(gt=0, le=1_000_000)] = 1.0
    beta_1: Annotated[float, Meta(ge=0, lt=1)] = 0.9
    beta_2: Annotated[float, Meta(ge=0, lt=1)] = 0.95
    weight_decay: Annotated[float, Meta(ge=0, le=1)] = 0.0
    max_staleness: Annotated[int, Meta(ge=0, le=64)] = 1
    """The bound on staleness, in versions (eta)."""
    sft_steps: Annotated[int, Meta(ge=0, le=10_000)] = 0
    sft_batch: Annotated[int, Meta(ge=1, le=1024)] = 16
    """Traces a step."""
    sft_learning_rate: Annotated[float, Meta(gt=0, le=1)] = 5e-5
    sft_warmup_steps: Annotated[int, Meta(ge=0, le=10_000)] = 3
    sft_traces_per_family: Annotated[int, Meta(ge=1, le=1000)] = 4
    temperature: Annotated[float, Meta(gt=0, le=5)] = 1.0
    round_tokens: Annotated[int, Meta(ge=1, le=100_000)] = 48
    """Most ids sampled in one round."""
    context_tokens: Annotated[int, Meta(ge=16, le=1_000_000)] = 640
    command_seconds: Annotated[float, Meta(ge=0.1, le=3600)] = 10.0
    """Most wall time of one command of the policy."""
    evaluation_tries: Annotated[int, Meta(ge=1, le=64)] = 4
    """Tries a task (K) at the first, the warm and the last evaluation."""
    interim_tries: Annotated[int, Meta(ge=1, le=64)] = 2
    """Tries a task in evaluations during training."""
    evaluation_every: Annotated[int, Meta(ge=0, le=100_000)] = 20
    """GRPO versions between evaluations; 0: none in between."""
    resumable_every: Annotated[int, Meta(ge=1, le=100_000)] = 10
    """GRPO versions between checkpoints with optimiser state."""
    concurrency: Annotated[int, Meta(ge=1, le=100_000)] = 64
    """Most attempts in flight."""
    attempts: Annotated[int, Meta(ge=1, le=20)] = 5
    """Most executions of one rollout, when infra failures end them."""
    max_seconds: Annotated[int, Meta(ge=1, le=365 * 86_400)] | None = None
    """Budget of wall time for GRPO; ends it cleanly with what is finished."""
    max_sampled_tokens: Annotated[int, Meta(ge=1, le=10**12)] | None = None
    """Budget of sampled tokens; ends the training cleanly."""
    seed: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0

    def changed(self, **values: Any) -> "RunConfig":
        """The same config with some values changed."""
        return msgspec.structs.replace(self, **values)


def parse_config(values: dict[str, Any]) -> RunConfig:
    """Raises ConfigError with every field that cannot be used, its value and what it may be."""
    if bad := [found for name, value in values.items() if (found := _bad_setting(name, value))]:
        raise ConfigError(*bad)
    return msgspec.convert(values, RunConfig)


def _bad_setting(name: str, value: object) -> BadSetting | None:
    """No bound of one setting hangs on another, so each is looked at alone."""
    if name not in (known := RunConfig.__struct_fields__):
        return BadSetting(name, value, f"There is no such setting. Known: {', '.join(sorted(known))}.")
    try:
        msgspec.convert({name: value}, RunConfig)
    except msgspec.ValidationError as error:
        return BadSetting(name, value, f"{str(error).partition(' - at')[0]}.")
    return None


RunKind = Literal["training", "evaluation", "admission"]
