import pytest

from apps.runs.config import ConfigError, parse_config
from apps.runs.control import ControlError, cancel, pause, resume
from apps.runs.models import Run
from tests.apps.factories import START, make_run, running

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("store")]


def test_asking_twice_changes_nothing() -> None:
    run = running()
    assert [pause(run, "ada"), pause(run, "ada")] == [True, False]
    assert [resume(run, "ada"), resume(run, "ada")] == [True, False]
    assert [cancel(run, "ada"), cancel(run, "ada")] == [True, False]
    assert run.state == "cancelling"


def test_a_run_paused_in_the_queue_goes_back_to_the_queue() -> None:
    run = make_run()
    pause(run, "ada")
    resume(run, "ada")
    assert run.state == "queued"


def test_a_verb_that_lost_the_race_to_a_pass_asks_again() -> None:
    run = make_run()
    Run.objects.get(pk=run.pk).begin(START)
    assert pause(run, "ada")
    assert Run.objects.get(pk=run.pk).state == "paused"


@pytest.mark.parametrize("verb", [pause, resume, cancel])
def test_an_ended_run_obeys_no_more(verb: object) -> None:
    run = running()
    run.end("failed", START, reason="broke")
    with pytest.raises(ControlError, match="failed"):
        verb(run, "ada")  # type: ignore[operator]
    assert (run.failure, run.finished_at) == ("broke", START)


def test_a_draft_is_cancelled_at_once() -> None:
    run = Run.objects.create(
        project=make_run().project, name="draft", kind="training", task_set=Run.objects.get().task_set, formula="x"
    )
    assert cancel(run, "ada")
    assert run.state == "cancelled"


def test_version_numbers_are_given_out_once() -> None:
    run = running()
    given = [run.next_version(), Run.objects.get(pk=run.pk).next_version()]
    run.take_version(0)
    assert [*given, run.next_version()] == [1, 2, 3]


def test_a_config_names_every_setting_that_is_wrong() -> None:
    with pytest.raises(ConfigError, match=r"top_p = 0\.9: There is no such setting") as caught:
        parse_config({"seed": -1, "group_size": 4, "top_p": 0.9})
    assert [(bad.field, bad.value) for bad in caught.value.bad] == [("seed", -1), ("top_p", 0.9)]
