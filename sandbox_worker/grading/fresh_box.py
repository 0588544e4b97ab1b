"""A grade is made in a new box: the agent's working folder as it left it, the tests delivered after the agent is dead.

Nothing that the agent wrote outside its working folder gets here; the reward is read once, after the tests' processes
are dead too.
"""

import time

from sandbox_worker.attempt import Attempt
from sandbox_worker.boxes import Boxes, BoxUse, box_spec
from sandbox_worker.carrying import Load
from sandbox_worker.errors import BoundaryError, boundary
from sandbox_worker.grading.reward_file import MOST_BYTES as MOST_REWARD_BYTES
from sandbox_worker.grading.reward_file import ForgedRewardError, Reward, RewardFileError, read_reward
from sandbox_worker.grading.test_report import MOST_BYTES as MOST_REPORT_BYTES
from sandbox_worker.grading.test_report import read_checks
from sandbox_worker.messages import Check, GradeReport, ScriptedCall
from sandbox_worker.observation import raw_output, recordable
from sandbox_worker.sandbox.base import Box, BoxFileError, BoxSpentError, Completed, End, MissingFileError
from sandbox_worker.sandbox.ending import STOPPED_CODE
from sandbox_worker.task_content import TaskContent

_LOGS = "/logs/verifier"
_RUN_TESTS = ["bash", "-c", f"mkdir -p {_LOGS} && exec bash /tests/test.sh"]
_OUTPUT_TAIL = 4000
_EVIDENCE = 2000
_UNGRADABLE = "the agent left a working folder that cannot be graded"
_NO_EXIT = {
    End.TIMED_OUT: "the tests did not end within {seconds:g} s",
    End.SIGNALLED: "the tests were killed by a signal",
    End.OUT_OF_MEMORY: "the tests ran out of memory",
    End.PID_LIMIT: "the tests had no more processes, and did not end within {seconds:g} s",
    End.DISK_FULL: "the tests filled the disk, and did not end within {seconds:g} s",
    End.OUTPUT_LIMIT: "the tests printed without end",
}


def ungradable(why: object) -> GradeReport:
    """The agent left a working folder that cannot be carried into a fresh box."""
    error = recordable(f"{_UNGRADABLE}: {why}")[:_EVIDENCE]
    return GradeReport(verdict="unsolved", score=0.0, error=error)


def grade(boxes: Boxes, task: TaskContent, load: Load, attempt: Attempt, use: BoxUse) -> GradeReport:
    """Raises BoundaryError where our side broke. No verdict only for a reference whose own tests say nothing.

    load is put down as soon as the box has the agent's folder.
    """
    began = time.monotonic()
    spec = box_spec(attempt, task.workdir, task.env + task.verifier_env, task.image)
    with boxes.lease(spec, attempt, use) as box, boundary("grader"):
        try:
            box.restore(load.archive)
        except (BoxFileError, BoxSpentError) as error:
            return ungradable(error)
        load.put_down()
        try:
            for file in task.tests:
                box.write(f"/{file.path}", file.data, mode=file.mode)
        except BoxSpentError as error:  # beside the agent's folder there was no room for the tests
            return _report_nothing(attempt, "", f"{_UNGRADABLE}: {error}", time.monotonic() - began)
        attempt.check()
        seconds = min(attempt.request.limits.verifier_seconds, attempt.seconds_left)
        completed = box.run(_RUN_TESTS, timeout=seconds)
        attempt.check()
        if completed.finished:
            return _report(attempt, box, completed, time.monotonic() - began)
        if completed.exit_code == STOPPED_CODE and seconds < attempt.request.limits.verifier_seconds:
            raise BoundaryError("worker", "the deadline of the attempt passed")
        why = _NO_EXIT[completed.end].format(seconds=attempt.request.limits.verifier_seconds)
        return _report_nothing(attempt, _tail(completed), why, time.monotonic() - began)


def _report_nothing(attempt: Attempt, output: str, why: str, seconds: float) -> GradeReport:
    """With the reference the tests end and say a number, or the task is not admitted: else what the agent left is why
    they do not, and no way around a verdict.

    What was written before they were stopped is not read: a program that they ran could have written it.
    """
    policy = attempt.request.policy
    ours = isinstance(policy, ScriptedCall) and policy.script == "reference"
    return GradeReport(
        verdict="none" if ours else "unsolved",
        score=None if ours else 0.0,
        output=output,
        error=why,
        seconds=seconds,
    )


def _report(attempt: Attempt, box: Box, completed: Completed, seconds: float) -> GradeReport:
    output = _tail(completed)
    try:
        reward = _reward(box)
    except ForgedRewardError as error:
        return GradeReport(verdict="unsolved", score=0.0, output=output, error=str(error), seconds=seconds)
    except RewardFileError as error:
        return _report_nothing(attempt, output, str(error), seconds)
    return GradeReport(
        verdict="solved" if reward.score >= 1.0 else "unsolved",
        score=reward.score,
        checks=_checks(box),
        metrics=reward.metrics,
        output=output,
        seconds=seconds,
    )


def _tail(completed: Completed) -> str:
    return raw_output(completed.output)[-_OUTPUT_TAIL:]


def _reward(box: Box) -> Reward:
    try:
        json_file = _read_if_there(box, f"{_LOGS}/reward.json", MOST_REWARD_BYTES)
        text_file = _read_if_there(box, f"{_LOGS}/reward.txt", MOST_REWARD_BYTES)
    except (BoxFileError, BoxSpentError) as error:
        raise RewardFileError(f"the reward cannot be read: {error}") from error
    return read_reward(json_file, text_file)


def _checks(box: Box) -> tuple[Check, ...]:
    try:
        report = _read_if_there(box, f"{_LOGS}/ctrf.json", MOST_REPORT_BYTES)
    except (BoxFileError, BoxSpentError):  # too large or no regular file: the reward stands without its details
        return ()
    return () if report is None else read_checks(report)


def _read_if_there(box: Box, path: str, limit: int) -> bytes | None:
    try:
        return box.read(path, limit=limit)
    except MissingFileError:
        return None
