"""A grade is made in a new box: the agent's working folder as it left it, the tests delivered after the agent is dead.

Nothing that the agent wrote outside its working folder gets here; the reward is read once, after the tests' processes
are dead too.
"""

import time

from sandbox_worker.attempt import Attempt
from sandbox_worker.boxes import Boxes, BoxUse, box_spec
from sandbox_worker.errors import BoundaryError, boundary
from sandbox_worker.grading.reward_file import MOST_BYTES as MOST_REWARD_BYTES
from sandbox_worker.grading.reward_file import ForgedRewardError, Reward, RewardFileError, read_reward
from sandbox_worker.grading.test_report import MOST_BYTES as MOST_REPORT_BYTES
from sandbox_worker.grading.test_report import read_checks
from sandbox_worker.messages import Check, GradeReport, ScriptedCall
from sandbox_worker.observation import raw_output
from sandbox_worker.sandbox.base import Box, BoxFileError, Completed, End, MissingFileError
from sandbox_worker.task_content import TaskContent

_LOGS = "/logs/verifier"
_RUN_TESTS = ["bash", "-c", f"mkdir -p {_LOGS} && exec bash /tests/test.sh"]
_OUTPUT_TAIL = 4000


def grade(boxes: Boxes, task: TaskContent, snapshot: bytes, attempt: Attempt, use: BoxUse) -> GradeReport:
    """Raises BoundaryError where our side broke; a task whose tests say nothing gives a report without a verdict."""
    began = time.monotonic()
    spec = box_spec(attempt, task.workdir, task.env + task.verifier_env)
    with boxes.lease(spec, attempt, use) as box, boundary("grader"):
        box.restore(snapshot)
        for file in task.tests:
            box.write(f"/{file.path}", file.data, mode=file.mode)
        attempt.check()
        seconds = min(attempt.request.limits.verifier_seconds, attempt.seconds_left)
        completed = box.run(_RUN_TESTS, timeout=seconds)
        attempt.check()
        if completed.end is End.TIMED_OUT:
            return _report_time_out(attempt, completed, seconds, time.monotonic() - began)
        return _report(box, completed, time.monotonic() - began)


def _report_time_out(attempt: Attempt, completed: Completed, allowed: float, seconds: float) -> GradeReport:
    """The reference ends in time, or the task is not admitted: where another does not, what the agent left hangs.

    What was written before is not read: a program that the tests ran could have written it, and stopped the tests.
    """
    limits, policy = attempt.request.limits, attempt.request.policy
    if allowed < limits.verifier_seconds:
        raise BoundaryError("worker", "the deadline of the attempt passed")
    ours = isinstance(policy, ScriptedCall) and policy.script == "reference"
    return GradeReport(
        verdict="none" if ours else "unsolved",
        score=None if ours else 0.0,
        output=raw_output(completed.output)[-_OUTPUT_TAIL:],
        error=f"the tests did not end within {limits.verifier_seconds:g} s",
        seconds=seconds,
    )


def _report(box: Box, completed: Completed, seconds: float) -> GradeReport:
    output = raw_output(completed.output)[-_OUTPUT_TAIL:]
    try:
        reward = _reward(box)
    except ForgedRewardError as error:
        return GradeReport(verdict="unsolved", score=0.0, output=output, error=str(error), seconds=seconds)
    except RewardFileError as error:
        how = "" if completed.end is End.EXITED else f"; the tests ended as {completed.end.value}"
        return GradeReport(verdict="none", score=None, output=output, error=f"{error}{how}", seconds=seconds)
    return GradeReport(
        verdict="solved" if reward.score >= 1.0 else "unsolved",
        score=reward.score,
        checks=_checks(box),
        metrics=reward.metrics,
        output=output,
        seconds=seconds,
    )


def _reward(box: Box) -> Reward:
    try:
        json_file = _read_if_there(box, f"{_LOGS}/reward.json", MOST_REWARD_BYTES)
        text_file = _read_if_there(box, f"{_LOGS}/reward.txt", MOST_REWARD_BYTES)
    except BoxFileError as error:
        raise RewardFileError(f"the reward cannot be read: {error}") from error
    return read_reward(json_file, text_file)


def _checks(box: Box) -> tuple[Check, ...]:
    try:
        report = _read_if_there(box, f"{_LOGS}/ctrf.json", MOST_REPORT_BYTES)
    except BoxFileError:  # too large or no regular file: the reward stands without its details
        return ()
    return () if report is None else read_checks(report)


def _read_if_there(box: Box, path: str, limit: int) -> bytes | None:
    try:
        return box.read(path, limit=limit)
    except MissingFileError:
        return None
