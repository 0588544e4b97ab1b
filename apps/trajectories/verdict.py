"""What an outcome counts for: a verdict if it was graded, else an infra failure; never something between.

A worker says both by itself; this holds whatever it says, since a reward hangs on it.
"""

from math import isfinite

import msgspec

from sandbox_worker.messages import Ending, GradeReport, Outcome


def ruled(outcome: Outcome) -> Outcome:
    """The outcome with an ending and a verdict that fit together."""
    grade = outcome.grade
    if outcome.ending.kind == "infra":
        return msgspec.structs.replace(outcome, grade=_without_verdict(grade, grade.error))
    if grade.verdict == "none":
        return _broken(outcome, grade.error or "the grader gave no verdict")
    if grade.score is None or not isfinite(grade.score) or not 0 <= grade.score <= 1:
        return _broken(outcome, f"the score {grade.score} is no number from 0 to 1")
    return outcome


def _broken(outcome: Outcome, why: str) -> Outcome:
    ending = Ending(kind="infra", detail="grader", evidence=outcome.ending.evidence or why)
    return msgspec.structs.replace(outcome, ending=ending, grade=_without_verdict(outcome.grade, why))


def _without_verdict(grade: GradeReport, error: str) -> GradeReport:
    return msgspec.structs.replace(grade, verdict="none", score=None, error=error)
