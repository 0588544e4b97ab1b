"""What the control plane and a sandbox worker say to each other: plain, frozen, versioned. The worker's door.

Sent as JSON; an unknown field or a wrong type is an error that names its path.
"""

from typing import Literal, dataclass_transform

import msgspec

ACCEPT_BATCH_JOB = "sandbox_worker.accept_batch"
ROLLOUTS_QUEUE = "rollouts"
BATCH_SIZE = 32
"""Most requests in one message."""

EndingKind = Literal["submitted", "gave_up", "limit", "stopped_early", "infra"]
Verdict = Literal["solved", "unsolved", "none"]
Boundary = Literal["box", "policy", "grader", "task", "worker"]


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))  # subclasses are frozen too: for mypy
class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value that crosses a process border."""


class ResourceProfile(Message, frozen=True):
    cpus: float = 1.0
    memory_bytes: int = 256 * 2**20
    pids: int = 64
    disk_bytes: int = 32 * 2**20
    output_bytes: int = 64 * 2**10
    """Kept of one command's output: head and tail."""
    printed_bytes: int = 4 * 2**30
    """Most that one command may print."""
    wall_seconds: float = 6 * 3600.0
    """The life of one box."""


class RolloutLimits(Message, frozen=True):
    rounds: int
    """Most model turns; reaching it ends the rollout, which is graded all the same."""
    context_tokens: int
    """Most ids of prompt and samples together."""
    round_tokens: int
    """Most ids sampled in one round."""
    command_seconds: float = 10.0
    """For one command."""
    agent_seconds: float = 120.0
    """For the whole agent phase."""
    verifier_seconds: float = 60.0
    observation_characters: int = 400
    """Of a command's output, as the policy sees it: head and tail."""


class Sampling(Message, frozen=True):
    temperature: float = 1.0
    seed: int = 0
    """Of the rollout; each round derives its own."""


class PolicyCall(Message, frozen=True, tag="policy"):
    """Rounds written by a language model behind an OpenAI-compatible address."""

    url: str
    """Without the /v1."""
    model: str
    """Served name, '<run>@<version>'."""
    version: int
    tokenizer_prefix: str
    """In the object store: tokenizer.json, tokenizer_config.json."""
    sampling: Sampling
    token_ids: bool = True
    """False for chat-only endpoints: no ids, evaluation only."""


class ScriptedCall(Message, frozen=True, tag="scripted"):
    """Rounds from a script: the task's own solution, or nothing at all."""

    script: Literal["reference", "nothing"]
    tokenizer_prefix: str = ""
    """With it, the rounds get the ids that a policy would have had to sample (SFT traces)."""


class RolloutRequest(Message, frozen=True):
    rollout_id: int
    run_id: int
    attempt: int
    fence: int
    deadline: float
    """Unix seconds; after it the control plane counts the attempt as lost."""
    task_key: str
    """In the object store: the task folder as a tar."""
    task_digest: str
    policy: PolicyCall | ScriptedCall
    limits: RolloutLimits
    profile: ResourceProfile = ResourceProfile()
    allowed_hosts: tuple[str, ...] = ()
    """Patterns of hosts that the agent's box reaches through a filtering proxy; none: no network."""
    protocol: Literal["fenced-shell@1"] = "fenced-shell@1"
    feedback: Literal["exit-and-output"] = "exit-and-output"


class RolloutBatch(Message, frozen=True):
    """The argument of ACCEPT_BATCH_JOB. Acknowledged on acceptance."""

    run_id: int
    requests: tuple[RolloutRequest, ...]
    write_prefix: str
    """Where segments go: '<prefix>/<incarnation>/<number>.jsonl'."""
    reply_job: str
    """Gets one SegmentReady."""
    reply_queue: str
    version: int = 1


class Ending(Message, frozen=True):
    kind: EndingKind
    detail: str = ""
    """limit: rounds, tokens, time, memory, context. stopped_early: the rule. infra: the boundary."""
    evidence: str = ""
    """What broke, in words, for infra."""


class Round(Message, frozen=True):
    index: int
    """From 1."""
    message: str
    """What the policy wrote, as text."""
    action: str | None
    """The command that was run; None if the round submitted."""
    observation: str
    """What the policy was told; empty after the last round."""
    output: str
    """What the command printed, decoded, capped."""
    output_bytes: int
    """True count of what it printed."""
    exit_code: int | None
    end: str
    """How the command ended: exited, signalled, timed_out, out_of_memory, disk_full, pid_limit, output_limit; empty
    without one."""
    truncated: bool
    started_at: float
    """Unix seconds."""
    model_seconds: float
    box_seconds: float
    finish_reason: str = ""
    """stop or length, as the policy server said."""
    policy_version: int | None = None
    """The version that answered; None for a script."""
    split: bool = False
    """True where the earlier ids could not be kept as a prefix: prompt_ids is then a whole new prompt."""
    prompt_ids: tuple[int, ...] = ()
    """New ids before the sample: the whole prompt in round 1, the observation's ids later."""
    sampled_ids: tuple[int, ...] = ()
    """Exactly what the server sampled (or what the script says)."""
    logprobs: tuple[float, ...] = ()
    """Of sampled_ids, at the sampling temperature, untruncated; empty for a script."""


class Check(Message, frozen=True):
    name: str
    passed: bool
    detail: str = ""


class GradeReport(Message, frozen=True):
    verdict: Verdict
    score: float | None
    """The number that the task's own tests wrote; None without a verdict."""
    checks: tuple[Check, ...] = ()
    metrics: dict[str, float] = {}
    """Other numbers of reward.json."""
    output: str = ""
    """Tail of what the tests printed."""
    error: str = ""
    """Why there is no verdict, or why it is unsolved whatever was written."""
    seconds: float = 0.0


class Phases(Message, frozen=True):
    """Seconds by phase."""

    waited: float
    """From acceptance to the start of the first box."""
    start: float
    agent: float
    grade: float


class ResourceUse(Message, frozen=True):
    boxes_started: int = 0
    box_failures: int = 0
    sandbox_seconds: float = 0.0
    cpu_seconds: float = 0.0
    memory_peak_bytes: int = 0
    pids_peak: int = 0
    prompt_tokens: int = 0
    """Sent to the policy, counted at each round."""
    sampled_tokens: int = 0


class Outcome(Message, frozen=True):
    """The whole record of one attempt: one line of a segment."""

    rollout_id: int
    run_id: int
    attempt: int
    fence: int
    incarnation: str
    ending: Ending
    rounds: tuple[Round, ...]
    grade: GradeReport
    phases: Phases
    use: ResourceUse
    started_at: float
    """Unix seconds."""
    finished_at: float
    splits: int = 0
    """Rounds whose prompt had to start anew."""
    task_digest: str = ""
    isolation: str = ""
    version: int = 1


class SegmentReady(Message, frozen=True):
    """The argument of the reply job: look at this segment."""

    run_id: int
    key: str
    sha256: str
    incarnation: str
    outcomes: int
    version: int = 1


def decode_segment(data: bytes) -> list[tuple[int, int, Outcome]]:
    """Offset, length and outcome of each line. Raises msgspec.ValidationError or DecodeError."""
    found, offset = [], 0
    for line in data.splitlines(keepends=True):
        found.append((offset, len(line), msgspec.json.decode(line, type=Outcome)))
        offset += len(line)
    return found
