import pytest

from apps.difficulty.rates import HALF_LIFE, RECENT_VERSIONS, recent_rates
from tests.apps.factories import play, running

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("store")]


def test_rates_count_verdicts_of_recent_versions_the_newer_the_more() -> None:
    run = running()
    play(run, ["solved", "unsolved", "none"])
    (found,) = recent_rates(run).values()
    assert (found.solved, found.tries) == (1, 2)
    run.take_version(HALF_LIFE)
    (faded,) = recent_rates(run).values()
    assert (faded.solved, faded.tries) == (0.5, 1)
    run.take_version(RECENT_VERSIONS + 1)
    assert recent_rates(run) == {}
