import pytest
from msgspec import structs
from pytest_django import DjangoAssertNumQueries

from apps.accounts.models import Project
from apps.admission.controls import decide, plan_controls, release, start_controls, undecided
from apps.lifecycle.models import Transition
from apps.runs.models import Run
from apps.tasks.models import TaskSet, TaskVersion
from sandbox_worker.messages import Ending
from tests.apps.factories import START, claim, make_outcome, make_task, record

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("store")]


def controls(count: int = 1) -> Run:
    entries = [(make_task(f"new-{number}", state="linted"), "train") for number in range(count)]
    run = begun(start_controls(Project.default(), None, TaskSet.freeze(Project.default(), "new", entries)))
    plan_controls(run)
    return run


def begun(run: Run) -> Run:
    run.begin(START)
    return run


def play_controls(run: Run, reference: str, nothing: str) -> TaskVersion:
    while claims := claim(run):
        for one in claims:
            script = run.groups.get(pk=one.group_id).script
            verdict = reference if script == "reference" else nothing
            record(run, [make_outcome(one, run.pk, verdict, version=None)])
    assert decide(run, now=START) == 1
    return TaskVersion.objects.get()


def test_a_task_whose_solution_passes_and_where_nothing_fails_is_admitted() -> None:
    task = play_controls(controls(), "solved", "unsolved")
    assert task.state == "admitted"
    assert task.evidence["reference"]["verdict"] == "solved"


@pytest.mark.parametrize(
    ("reference", "nothing", "reason"),
    [
        ("unsolved", "unsolved", "The solution does not pass the tests (score 0.0)"),
        ("solved", "solved", "Doing nothing passes the tests."),
    ],
)
def test_a_task_that_proves_nothing_is_rejected_with_the_reason(reference: str, nothing: str, reason: str) -> None:
    task = play_controls(controls(), reference, nothing)
    assert task.state == "rejected"
    assert Transition.objects.filter(subject="task", after="rejected").get().reason.startswith(reason)


@pytest.mark.parametrize(
    ("ending", "end", "words"),
    [
        (Ending(kind="limit", detail="rounds"), "timed_out", "(score 0.0): its last command ran out of time. Mend"),
        (Ending(kind="limit", detail="rounds"), "exited", "(score 0.0): it met its limit of rounds. Mend"),
        (Ending(kind="submitted"), "exited", "(score 0.0). Mend"),
    ],
)
def test_a_rejection_says_which_limit_stopped_the_solution(ending: Ending, end: str, words: str) -> None:
    run = controls()
    for one in claim(run):
        made = make_outcome(one, run.pk, "unsolved", version=None, ending=ending)
        rounds = tuple(structs.replace(played, end=end) for played in made.rounds)
        record(run, [structs.replace(made, rounds=rounds)])
    assert decide(run, now=START) == 1
    assert words in Transition.objects.get(subject="task", after="rejected").reason


@pytest.mark.parametrize(
    ("reference", "nothing", "reason"),
    [
        ("none", "unsolved", "The solution could not be graded: no disk"),
        ("solved", "none", "Doing nothing could not be graded: no disk"),
    ],
)
def test_a_task_whose_controls_broke_on_us_is_not_judged(reference: str, nothing: str, reason: str) -> None:
    run = controls()
    task = play_controls(run, reference, nothing)
    assert task.state == "linted"
    assert reason in Transition.objects.filter(subject="task", before="controls").get().reason
    assert task.evidence["run"] == run.pk
    assert undecided(run) == 0, "the run does not wait for it"
    assert plan_controls(run) == 0, "nor does it try again"


def test_a_task_whose_own_tests_break_is_rejected_at_once_with_the_reason() -> None:
    run = controls()
    for one in claim(run):
        reference = run.groups.get(pk=one.group_id).script == "reference"
        broken = Ending(kind="infra", detail="task", evidence="reward.txt is empty")
        changes = {"ending": broken} if reference else {}
        record(run, [make_outcome(one, run.pk, "none" if reference else "unsolved", version=None, **changes)])
    assert decide(run, now=START) == 1
    assert TaskVersion.objects.get().state == "rejected"
    reason = Transition.objects.get(subject="task", after="rejected").reason
    assert reason == "The solution could not be graded: reward.txt is empty. Mend solution/ or tests/."


def test_the_next_controls_prove_what_broke_on_us() -> None:
    first = controls()
    play_controls(first, "none", "unsolved")
    second = begun(start_controls(Project.default(), None, first.task_set))
    assert plan_controls(second) == 1
    assert decide(first, now=START) == 0, "what it showed does not count for the other"
    assert play_controls(second, "solved", "unsolved").state == "admitted"


def test_the_next_controls_try_what_was_rejected_or_quarantined() -> None:
    first = controls()
    assert play_controls(first, "unsolved", "unsolved").state == "rejected"
    assert plan_controls(first) == 0
    second = begun(start_controls(Project.default(), None, first.task_set))
    plan_controls(second)
    task = play_controls(second, "solved", "unsolved")
    task.move("quarantined")
    assert plan_controls(second) == 0, "what a curator took out stays out of controls that run already"
    third = begun(start_controls(Project.default(), None, first.task_set))
    assert plan_controls(third) == 1


def test_no_controls_are_played_of_what_lint_refused_or_a_curator_retired() -> None:
    refused, retired = make_task("refused", state="rejected"), make_task("retired", state="retired")
    TaskVersion.objects.filter(pk=refused.pk).update(findings=[{"level": "warning"}, {"level": "error"}])
    task_set = TaskSet.freeze(Project.default(), "old", [(refused, "train"), (retired, "train")])
    run = begun(start_controls(Project.default(), None, task_set))
    assert plan_controls(run) == 0
    assert undecided(run) == 0


def test_controls_are_planned_once() -> None:
    run = controls()
    assert plan_controls(run) == 0
    assert run.groups.count() == 2


def test_a_task_is_not_decided_before_both_controls_have_ended() -> None:
    run = controls()
    record(run, [make_outcome(claim(run, limit=1)[0], run.pk, version=None)])
    assert decide(run, now=START) == 0
    assert undecided(run) == 1


def test_tasks_of_a_run_that_ended_early_wait_for_other_controls() -> None:
    run = controls()
    assert release(run) == 1
    other = start_controls(Project.default(), None, run.task_set)
    assert plan_controls(other) == 1


def test_deciding_takes_as_many_queries_for_many_tasks_under_way(
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    run = controls(20)
    with django_assert_max_num_queries(2):
        assert decide(run, now=START) == 0
