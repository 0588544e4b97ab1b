"""Two evaluations of a run on the same tasks: paired by task, clustered by family."""

from apps.evaluation.collect import by_task, evaluation_tries
from apps.evaluation.models import Evaluation
from apps.evaluation.statistics.paired import PairedDifference, paired_difference


def compare(after: Evaluation, before: Evaluation) -> PairedDifference:
    """after minus before."""
    return paired_difference(
        by_task(evaluation_tries(after.run, after.version, after.suite)),
        by_task(evaluation_tries(before.run, before.version, before.suite)),
    )
