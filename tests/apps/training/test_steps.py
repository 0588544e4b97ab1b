"""Steps handed over, answered, lost, failed and rewound."""

import msgspec
import pytest
from django.db import IntegrityError, transaction

from apps.buffer.admit import admit_groups
from apps.buffer.ledger import ledger
from apps.buffer.models import Batch, Sample
from apps.lifecycle.models import Event
from apps.pipeline.learn import feed_learner
from apps.rewards.score import score_new
from apps.rollouts.models import Group
from apps.runs.models import Run
from apps.training.adopt import WrongOutcomeError, adopt_step, keeps_failing
from apps.training.hand_over import MOST_SENDINGS, held_by_learner, order_stops, resend_unheld
from apps.training.models import LearnerStep, live_versions
from apps.training.rewind import resume_point
from learner.messages import StepRequest
from tests.apps.factories import CONFIG, START, at, beat, drain_queue, play, running, step_outcome, write_weights
from wire.incarnation import Orders, orders_key
from wire.store import FolderStore

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("queues")]
GRPO = msgspec.structs.replace(CONFIG, sft_steps=0, temperature=0.7, evaluation_every=0)


def training(config: object = GRPO) -> Run:
    run = running(msgspec.convert(msgspec.to_builtins(config), type(GRPO)))
    run.evaluations.create(version=0, suite="held-out", tries=1, why="first", state="finished")
    return run


def hand(run: Run, store: FolderStore) -> StepRequest:
    """One more step on two fresh groups, on its way."""
    for _ in range(2):
        play(run, ["solved", "unsolved"])
    score_new(run)
    admit_groups(run, live_versions=live_versions(run))
    feed_learner(run, run.config, store, now=START)
    (message,) = drain_queue("learner")
    return msgspec.convert(message, StepRequest)


def answer(run: Run, store: FolderStore, request: StepRequest, **given: object) -> None:
    outcome = step_outcome(request, **given)  # type: ignore[arg-type]
    if outcome.state == "made":
        write_weights(request)
    store.put(request.outcome_key, msgspec.json.encode(outcome))
    assert adopt_step(run, store, now=START)
    assert ledger(run).exact, ledger(run).problems


def step(run: Run, store: FolderStore, **given: object) -> StepRequest:
    request = hand(run, store)
    answer(run, store, request, **given)
    return request


def test_a_request_names_all_that_the_learner_needs(store: FolderStore) -> None:
    run = training()
    request = hand(run, store)
    assert (request.parent_version, request.version, request.fresh_optimizer, request.fence) == (0, 1, True, 1)
    assert request.parent_prefix == run.policy.prefix  # type: ignore[union-attr]
    assert request.settings.temperature == 0.7
    assert store.get(request.batch_key)


def test_what_was_made_is_the_newest_version(store: FolderStore) -> None:
    run = training()
    step(run, store)
    assert run.policy_version == 1
    assert Batch.objects.get().state == "applied"
    assert set(Sample.objects.values_list("state", flat=True)) == {"trained"}
    assert not adopt_step(run, store, now=START)


def test_the_optimiser_is_new_once(store: FolderStore) -> None:
    run = training()
    assert [step(run, store).fresh_optimizer for _ in range(2)] == [True, False]


def test_the_outcome_of_an_old_fence_is_not_looked_at(store: FolderStore) -> None:
    run = training()
    old = hand(run, store)
    beat("l", kind="learner", now=at(30))
    assert resend_unheld(run, run.config, store, now=at(30))
    store.put(old.outcome_key, msgspec.json.encode(step_outcome(old)))
    assert not adopt_step(run, store, now=START)
    (message,) = drain_queue("learner")
    answer(run, store, msgspec.convert(message, StepRequest))
    assert run.policy_version == 1


def test_an_outcome_that_is_another_steps_is_refused(store: FolderStore) -> None:
    run = training()
    request = hand(run, store)
    store.put(request.outcome_key, msgspec.json.encode(step_outcome(request, step_id=request.step_id + 1)))
    with pytest.raises(WrongOutcomeError):
        adopt_step(run, store, now=START)
    assert run.policy_version == 0


def test_a_step_that_a_learner_holds_is_not_sent_again(store: FolderStore) -> None:
    run = training()
    request = hand(run, store)
    beat("l", kind="learner", now=at(60), holding=[f"{request.step_id}:{request.fence}"])
    assert not resend_unheld(run, run.config, store, now=at(60))


def test_a_step_that_waits_behind_another_runs_is_not_sent_again(store: FolderStore) -> None:
    run = training()
    hand(run, store)
    beat("l", kind="learner", now=at(60), holding=["999:1"])
    assert not resend_unheld(run, run.config, store, now=at(60))


def test_while_no_learner_speaks_nothing_is_sent_again(store: FolderStore) -> None:
    run = training()
    hand(run, store)
    beat("l", kind="learner", now=at(20))
    assert not resend_unheld(run, run.config, store, now=at(40))


def test_a_step_that_was_answered_since_the_last_look_is_not_sent_again(store: FolderStore) -> None:
    run = training()
    request = hand(run, store)
    store.put(request.outcome_key, msgspec.json.encode(step_outcome(request)))
    beat("l", kind="learner", now=at(30))
    assert not resend_unheld(run, run.config, store, now=at(30))
    assert adopt_step(run, store, now=at(31))
    assert run.policy_version == 1


def test_a_step_that_its_learners_die_of_fails_in_the_end(store: FolderStore) -> None:
    run = training()
    hand(run, store)
    for turn in range(1, MOST_SENDINGS):
        beat("l", kind="learner", now=at(30 * turn))
        assert resend_unheld(run, run.config, store, now=at(30 * turn))
    beat("l", kind="learner", now=at(200))
    assert not resend_unheld(run, run.config, store, now=at(200))
    step = LearnerStep.objects.get()
    assert (step.state, step.fence, step.batch.state) == ("failed", MOST_SENDINGS, "returned")
    assert step.error.startswith("5 times: no learner answered")
    assert ledger(run).exact


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("not_written", "The learner cannot write checkpoint 1"),
        ("not_read", "The learner cannot read what checkpoint 1 is made of"),
    ],
)
def test_what_the_store_keeps_from_its_end_is_sent_again_with_the_same_batch(
    store: FolderStore, state: str, words: str
) -> None:
    run = training()
    first = hand(run, store)
    answer(run, store, first, state=state, error="No space left on device")
    assert drain_queue("learner") == []
    assert Event.objects.get(kind="step.waits").text == f"{words}: No space left on device"
    assert adopt_step(run, store, now=at(30))
    assert not adopt_step(run, store, now=at(31))
    (message,) = drain_queue("learner")
    again = msgspec.convert(message, StepRequest)
    assert (again.step_id, again.batch_key, again.fence) == (first.step_id, first.batch_key, 2)
    assert set(Sample.objects.values_list("state", flat=True)) == {"handed"}
    answer(run, store, again)
    assert (run.policy_version, LearnerStep.objects.get().error) == (1, "")


def test_a_store_that_stays_full_fails_the_step_with_what_it_said(store: FolderStore) -> None:
    run = training()
    request = hand(run, store)
    for turn in range(1, MOST_SENDINGS + 1):
        full = step_outcome(request, state="not_written", error="No space left on device", fence=turn)
        store.put(LearnerStep.objects.get().outcome_key(), msgspec.json.encode(full))
        assert adopt_step(run, store, now=at(200 * turn))
    assert LearnerStep.objects.get().error == "5 times: The learner cannot write checkpoint 1: No space left on device"
    assert Batch.objects.get().state == "returned"


def test_a_learner_is_ordered_to_stop_what_does_not_count(store: FolderStore) -> None:
    run = training()
    old = hand(run, store)
    beat("idle", kind="learner", now=at(30))
    resend_unheld(run, run.config, store, now=at(30))
    beat("l", kind="learner", now=at(31), holding=[f"{old.step_id}:{old.fence}"])
    assert order_stops(store) == 1
    orders = msgspec.json.decode(store.get(orders_key("l")), type=Orders)
    assert orders.cancelled == {f"{old.step_id}:1"}
    assert held_by_learner(run)


def test_a_failed_step_gives_its_batch_back_and_its_version_is_never_reused(store: FolderStore) -> None:
    run = training()
    step(run, store, state="failed", error="loss is NaN")
    assert (run.policy_version, Batch.objects.get().state) == (0, "returned")
    assert set(Sample.objects.values_list("state", "reason")) == {("discarded", "rewound")}
    assert hand(run, store).version == 2


def test_three_failures_in_a_row_say_why(store: FolderStore) -> None:
    run = training()
    step(run, store, state="failed", error="one")
    step(run, store)
    for error in ("two", "three"):
        step(run, store, state="failed", error=error)
    assert keeps_failing(run) == ""
    step(run, store, state="failed", error="loss is NaN")
    assert keeps_failing(run) == "3 learner steps in a row failed; the last one: loss is NaN"


def test_a_lost_optimiser_state_goes_back_to_where_it_was_written_down(store: FolderStore) -> None:
    run = training()
    for _ in range(3):
        step(run, store)
    request = step(run, store, state="not_resident")
    assert (request.parent_version, request.version) == (3, 4)
    assert run.policy_version == 2
    assert live_versions(run) == {0, 1, 2}
    assert LearnerStep.objects.get(version=3).state == "rewound"
    rewound = ledger(run).discarded_tokens["rewound"]
    assert rewound == 2 * 12
    again = hand(run, store)
    assert (again.parent_version, again.version, again.fresh_optimizer) == (2, 5, False)


def test_after_a_rewind_no_group_of_the_dead_branch_is_learned_from(store: FolderStore) -> None:
    run = training()
    for _ in range(3):
        step(run, store)
    play(run, ["solved", "unsolved"])
    request = hand(run, store)
    left = Group.objects.get(state="admitted")
    answer(run, store, request, state="not_resident")
    left.refresh_from_db()
    assert (left.state, left.dropped_reason) == ("dropped", "rewound")
    assert not Sample.objects.filter(group=left, state="buffered").exists()


def test_before_the_first_written_state_training_starts_anew(store: FolderStore) -> None:
    run = training()
    step(run, store)
    step(run, store, state="not_resident")
    assert (run.policy_version, resume_point(run)) == (0, 0)
    assert hand(run, store).fresh_optimizer


def test_the_end_of_the_warm_start_is_a_resume_point(store: FolderStore) -> None:
    run = training(msgspec.structs.replace(GRPO, sft_steps=2))
    play(run, ["solved"], purpose="reference", script="reference")
    for version in (1, 2):
        feed_learner(run, run.config, store, now=START)
        (message,) = drain_queue("learner")
        answer(run, store, msgspec.convert(message, StepRequest))
        assert run.policy_version == version
    run.evaluations.create(version=2, suite="held-out", tries=1, why="warm", state="finished")
    assert step(run, store).fresh_optimizer
    assert resume_point(run) == 2
    step(run, store, state="not_resident")
    assert run.policy_version == 2
    again = hand(run, store)
    assert (again.kind, again.parent_version, again.fresh_optimizer) == ("grpo", 2, True)


def test_a_step_that_could_not_write_its_state_is_no_resume_point(store: FolderStore) -> None:
    run = training()
    step(run, store)
    assert hand_and_answer_without_state(run, store).resumable
    assert resume_point(run) == 0


def hand_and_answer_without_state(run: Run, store: FolderStore) -> StepRequest:
    request = hand(run, store)
    answer(run, store, request, resumable=False)
    return request


def test_a_version_is_given_to_one_step_and_one_step_is_handed(store: FolderStore) -> None:
    run = training()
    step(run, store)
    with pytest.raises(IntegrityError, match="step_version"), transaction.atomic():
        LearnerStep.objects.create(
            run=run, batch=second_batch(run), kind="grpo", number=2, parent_version=1, version=1, handed_at=START,
            sent_at=START, state="failed",
        )  # fmt: skip
    hand(run, store)
    with pytest.raises(IntegrityError, match="step_one_handed"), transaction.atomic():
        LearnerStep.objects.filter(state="applied").update(state="handed")


def second_batch(run: Run) -> Batch:
    return Batch.objects.create(run=run, kind="sft", base_version=0, groups=1, sequences=1, tokens=0, state="returned")
