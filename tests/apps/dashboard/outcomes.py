"""Outcomes as a sandbox worker would write them."""

from random import Random

from sandbox_worker.messages import (
    Check,
    Ending,
    GradeReport,
    Outcome,
    Phases,
    ResourceUse,
    Round,
)


def make_round(
    rng: Random,
    index: int,
    started_at: float,
    *,
    action: str | None,
    output: str,
    exit_code: int | None,
    version: int | None,
) -> Round:
    ids = tuple(rng.randrange(100, 9000) for _ in range(rng.randrange(9, 22)))
    return Round(
        index=index,
        message=f"I look at the note first.\n```sh\n{action}\n```" if action else "Done.",
        action=action,
        observation=output,
        output=output,
        output_bytes=len(output.encode()),
        exit_code=exit_code,
        end="exited" if action else "",
        truncated=False,
        started_at=started_at,
        model_seconds=0.3 + rng.random() * 0.4,
        box_seconds=0.05 + rng.random() * 0.1 if action else 0.0,
        finish_reason="stop",
        policy_version=version,
        prompt_ids=tuple(range(120 if index == 1 else 24)),
        sampled_ids=ids,
        logprobs=tuple(-0.3 * rng.random() for _ in ids) if version is not None else (),
    )


def make_grade(solved: bool | None) -> GradeReport:
    """solved None: we broke."""
    if solved is None:
        error = "the box did not start: no space left on device"
        return GradeReport(verdict="none", score=None, error=error, seconds=0.12)
    word = Check(name="out.txt holds the word", passed=solved, detail="" if solved else "got table")
    return GradeReport(
        verdict="solved" if solved else "unsolved",
        score=float(solved),
        checks=(word, Check(name="note.txt untouched", passed=True)),
        output="1 passed\n" if solved else "1 failed, 1 passed\n",
        seconds=0.12,
    )


def make_ending(rng: Random, solved: bool | None) -> Ending:
    if solved is None:
        return Ending(kind="infra", detail="box", evidence="bwrap: no space left on device")
    if not solved and rng.random() < 0.3:
        return Ending(kind="limit", detail="rounds")
    return Ending(kind="submitted")


def make_outcome(
    rng: Random,
    *,
    rollout_id: int,
    run_id: int,
    solved: bool | None,
    rounds: int,
    version: int | None,
    started_at: float,
    attempt: int = 1,
    fence: int = 1,
    output: str = "The password is lemon, not table.\n",
    digest: str = "",
) -> Outcome:
    """solved None: we broke."""
    played: list[Round] = []
    at = started_at + 0.2
    for index in range(1, rounds + 1):
        action = "cat note.txt" if index < rounds else ("echo lemon > out.txt" if solved else "echo table > out.txt")
        code = 0 if solved or index < rounds else rng.choice([0, 0, 1])
        one = make_round(
            rng, index, at, action=action, output=output if index < rounds else "", exit_code=code, version=version
        )
        played.append(one)
        at = one.started_at + one.model_seconds + one.box_seconds
    broke = solved is None
    sampled = sum(len(one.sampled_ids) for one in played)
    return Outcome(
        rollout_id=rollout_id,
        run_id=run_id,
        attempt=attempt,
        fence=fence,
        incarnation="4f1d7a20c0ffee",
        ending=make_ending(rng, solved),
        rounds=tuple(played),
        grade=make_grade(solved),
        phases=Phases(waited=0.4, start=0.03, agent=at - started_at, grade=0.12),
        use=ResourceUse(
            boxes_started=2,
            box_failures=1 if broke else 0,
            sandbox_seconds=0.4,
            cpu_seconds=0.05,
            memory_peak_bytes=9 * 2**20,
            pids_peak=3,
            prompt_tokens=144 * rounds,
            sampled_tokens=sampled,
        ),
        started_at=started_at,
        finished_at=at + 0.15,
        task_digest=digest,
        isolation="bubblewrap, user namespace, seccomp",
    )
