"""What the control plane and a learner say to each other: plain, frozen, versioned. The learner's door."""

from typing import Literal, dataclass_transform

import msgspec

TAKE_STEP_JOB = "learner.take_step"
LEARNER_QUEUE = "learner"

StepKind = Literal["sft", "grpo"]


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))  # subclasses are frozen too: for mypy
class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value that crosses a process border."""


class Sample(Message, frozen=True, kw_only=True):
    """One sequence to learn from: token in, token out, nothing made from text again."""

    trajectory_id: int
    ids: tuple[int, ...]
    """Prompt, samples and observations in order: (T,)."""
    trainable: tuple[bool, ...]
    """True at ids that the policy sampled: (T,)."""
    logprobs: tuple[float, ...]
    """Behaviour log-probabilities of the trainable ids, in order; empty for sft."""
    oldest_version: int
    """Oldest policy version that sampled any of these ids."""


class SampleGroup(Message, frozen=True, kw_only=True):
    """The tries of one task, compared with each other. For sft a group holds one trace and its reward is not used."""

    group_id: int
    family: str
    samples: tuple[Sample, ...]
    sample_rewards: tuple[float, ...]
    """One a sample; the samples of one split trajectory share its reward."""
    trajectory_ids: tuple[int, ...]
    rewards: tuple[float, ...]
    """One a trajectory: what the advantages are made from."""


class StepSettings(Message, frozen=True, kw_only=True):
    learning_rate: float
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    clip_low: float = 0.2
    clip_high: float = 0.2
    importance_cap: float = 2.0
    """Truncated importance sampling: cap of learner over sampler probability, per token."""
    advantage_eps: float = 1e-6
    temperature: float = 1.0
    """At which the samples were drawn: their log-probabilities are of this distribution, so the learner's are too."""


class BatchData(Message, frozen=True, kw_only=True):
    """The object at StepRequest.batch_key."""

    groups: tuple[SampleGroup, ...]
    version: int = 1


class StepRequest(Message, frozen=True, kw_only=True):
    """The argument of TAKE_STEP_JOB."""

    run_id: int
    step_id: int
    number: int
    kind: StepKind
    fence: int
    deadline: float
    """Unix seconds."""
    batch_key: str
    parent_version: int
    version: int
    """The policy version that this step makes."""
    parent_prefix: str
    """Weights of the parent version in the store: config.json, model.safetensors, tokenizer files, and, if it is
    resumable, trainer/."""
    fresh_optimizer: bool
    """True for the first step of a kind: start from the parent's weights with a new optimiser state."""
    write_prefix: str
    """Where the new version's files go."""
    resumable: bool
    """Write optimiser and random state too."""
    settings: StepSettings
    outcome_key: str
    """Where the StepOutcome goes, before any message."""
    reply_job: str
    """Gets one StepReady."""
    reply_queue: str
    message_version: int = 1


class StepMetrics(Message, frozen=True, kw_only=True):
    """Numbers of one step. None where a number is not defined for the kind."""

    loss: float
    grad_norm: float
    """Before clipping."""
    entropy: float
    """Mean over trainable tokens, nats; from the learner's own distribution."""
    trained_tokens: int
    """In the loss's denominator."""
    sequences: int
    groups: int
    flat_groups: int
    single_groups: int
    """Groups of one: advantage 0."""
    seconds: float
    load_seconds: float
    write_seconds: float
    tokens_per_second: float
    """Trainable tokens over the seconds of forward, backward and update."""
    kl: float | None = None
    """Mean k3 of the learner at the start of the step against the sampler, nats a token."""
    clip_fraction: float | None = None
    """Not defined while a batch is one update: each ratio is then that of the weights to themselves, which is 1."""
    mismatch: float | None = None
    """Mean |log-probability of learner minus sampler|, trainable tokens."""
    importance_max: float | None = None
    truncated_fraction: float | None = None
    """Share of tokens whose importance weight met the cap."""
    effective_sample: float | None = None
    """(sum w)^2 / (n sum w^2)."""
    reward_mean: float | None = None
    peak_rss_bytes: int = 0


class StepOutcome(Message, frozen=True, kw_only=True):
    run_id: int
    step_id: int
    fence: int
    incarnation: str
    state: Literal["made", "not_resident", "not_read", "not_written", "failed"]
    """not_resident: the optimiser state that the parent needs is neither in memory nor in the store.
    not_read, not_written: the store did not give what the step needs, or did not take what it made. What is in memory
    is as good as before: the same step sent again under a new fence goes on from there."""
    error: str = ""
    prefix: str = ""
    digest: str = ""
    """SHA-256 of model.safetensors."""
    size_bytes: int = 0
    resumable: bool = False
    metrics: StepMetrics | None = None
    skipped: bool = False
    """Every group was flat: the version equals its parent."""
    started_at: float = 0.0
    finished_at: float = 0.0
    version: int = 1


class StepReady(Message, frozen=True, kw_only=True):
    """The argument of the reply job: look at this outcome."""

    run_id: int
    step_id: int
    fence: int
    key: str
    version: int = 1
