import pytest

from apps.difficulty.rates import recent_rates
from tests.apps.factories import play, running

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("store")]


def test_rates_count_verdicts_of_recent_versions_only() -> None:
    run = running()
    play(run, ["solved", "unsolved", "none"])
    (found,) = recent_rates(run).values()
    assert (found.solved, found.tries) == (1, 2)
    run.take_version(30)
    assert recent_rates(run) == {}
