import json
import re

import msgspec
import pytest

from apps.lifecycle.models import Event
from apps.rewards.models import Reward
from apps.rewards.score import score_new
from apps.rollouts.expire import Hopeless, lose_attempts
from apps.rollouts.models import Attempt, Rollout
from apps.trajectories.models import CommandEnds, Grade, Segment, Trajectory
from apps.trajectories.record import DamagedSegmentError, record_segment, sweep_segments
from sandbox_worker.messages import Check, Ending, GradeReport, Outcome
from tests.apps.factories import (
    START,
    claim,
    make_outcome,
    plan_and_claim,
    record,
    running,
    segment_of,
    together,
    write_segment,
)
from wire.store import FolderStore

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("store")]


def test_an_outcome_becomes_a_trajectory_with_its_grade() -> None:
    run = running()
    first, second = plan_and_claim(run)
    assert record(run, [make_outcome(first, run.pk), make_outcome(second, run.pk, "unsolved")]) == 2
    verdicts = Grade.objects.order_by("trajectory__rollout").values_list("verdict", "score", "trajectory__counts")
    assert list(verdicts) == [("solved", 1.0, True), ("unsolved", 0.0, True)]
    assert set(Rollout.objects.values_list("state", flat=True)) == {"recorded"}
    assert set(Attempt.objects.values_list("state", "ending_kind")) == {("recorded", "submitted")}


def test_the_whole_record_is_read_back_from_its_line(store: FolderStore) -> None:
    run = running()
    outcomes = [make_outcome(one, run.pk) for one in plan_and_claim(run)]
    record(run, outcomes)
    assert [found.load(store) for found in Trajectory.objects.order_by("rollout")] == outcomes


def test_a_late_outcome_changes_nothing() -> None:
    run = running()
    (old,) = plan_and_claim(run, 1)
    lose_attempts(run, [Hopeless(old.rollout_id, old.fence, "gone")], cap=3, now=START)
    (new,) = claim(run)
    before = list(Rollout.objects.values())
    assert record(run, [make_outcome(old, run.pk)]) == 0
    assert list(Rollout.objects.values()) == before
    assert not Trajectory.objects.exists()
    assert record(run, [make_outcome(new, run.pk)]) == 1


def test_an_old_and_a_new_outcome_of_one_rollout_in_one_segment_count_once() -> None:
    run = running()
    (old,) = plan_and_claim(run, 1)
    lose_attempts(run, [Hopeless(old.rollout_id, old.fence, "gone")], cap=3, now=START)
    (new,) = claim(run)
    assert record(run, [make_outcome(old, run.pk, "unsolved"), make_outcome(new, run.pk, "solved")]) == 1
    assert Grade.objects.get().verdict == "solved"


def test_a_segment_is_recorded_once(store: FolderStore) -> None:
    run = running()
    key = write_segment(run, [make_outcome(one, run.pk) for one in plan_and_claim(run)])
    counted = [record_segment(run, key, store.get(key), sha256="", cap=3, now=START) for _ in range(2)]
    assert counted == [2, 0]


def test_the_same_outcome_twice_in_a_segment_counts_once() -> None:
    run = running()
    (one,) = plan_and_claim(run, 1)
    assert record(run, [make_outcome(one, run.pk, "unsolved"), make_outcome(one, run.pk, "solved")]) == 1
    assert Grade.objects.get().verdict == "unsolved"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("names", [["a", "a"], ["a", "b"]])
def test_two_recorders_at_once_count_an_outcome_once(store: FolderStore, names: list[str]) -> None:
    run = running()
    outcomes = [make_outcome(one, run.pk) for one in plan_and_claim(run, 8)]
    keys = [write_segment(run, outcomes, name=name) for name in names]
    counted = together(
        lambda: record_segment(run, keys.pop(), segment_of(outcomes), sha256="", cap=3, now=START), len(names)
    )
    assert sorted(counted) == [0, 8]
    assert Trajectory.objects.count() == 8


def test_an_outcome_of_another_run_changes_nothing() -> None:
    run, other = running(), running(name="other")
    (one,) = plan_and_claim(other, 1)
    assert record(run, [make_outcome(one, other.pk)]) == 0
    assert record(run, [make_outcome(one, run.pk)]) == 0
    assert Rollout.objects.get().state == "queued"


def test_a_segment_of_another_run_stays_with_that_run(store: FolderStore) -> None:
    run, other = running(), running(name="other")
    key = write_segment(other, [make_outcome(one, other.pk) for one in plan_and_claim(other)])
    with pytest.raises(DamagedSegmentError, match="not below"):
        record_segment(run, key, store.get(key), sha256="", cap=3, now=START)
    assert sweep_segments(other, store, cap=3, now=START) == 2


def test_the_sweep_finds_what_no_message_told_of(store: FolderStore) -> None:
    run = running()
    write_segment(run, [make_outcome(one, run.pk) for one in plan_and_claim(run)])
    assert [sweep_segments(run, store, cap=3, now=START) for _ in range(2)] == [2, 0]


def test_a_damaged_segment_is_set_aside_once_and_keeps_no_other(store: FolderStore) -> None:
    run = running()
    claims = plan_and_claim(run)
    store.put(f"outcomes/{run.pk}/worker/0.jsonl", b'{"rollout_id": 1')
    write_segment(run, [make_outcome(one, run.pk) for one in claims[:1]], name="1")
    assert [sweep_segments(run, store, cap=3, now=START) for _ in range(2)] == [1, 0]
    assert Event.objects.filter(kind="segment.damaged").count() == 1


def test_a_segment_with_another_hash_is_damaged() -> None:
    run = running()
    with pytest.raises(DamagedSegmentError, match="SHA-256"):
        record_segment(run, f"outcomes/{run.pk}/w/1.jsonl", b"", sha256="0" * 64, cap=3, now=START)
    assert not Segment.objects.exists()


@pytest.mark.parametrize("changes", [{"started_at": 1e300}, {"splits": 2**40}, {"rollout_id": 2**70}])
def test_a_number_that_no_row_holds_is_a_damaged_segment(store: FolderStore, changes: dict[str, float]) -> None:
    run = running()
    (one,) = plan_and_claim(run, 1)
    fields = json.loads(msgspec.json.encode(make_outcome(one, run.pk))) | changes
    store.put(f"outcomes/{run.pk}/worker/0.jsonl", json.dumps(fields).encode())
    assert sweep_segments(run, store, cap=3, now=START) == 0
    assert Event.objects.filter(kind="segment.damaged").exists()


def test_nul_anywhere_in_the_text_is_recorded() -> None:
    run = running()
    (one,) = plan_and_claim(run, 1)
    bad = make_outcome(
        one,
        run.pk,
        incarnation="w\0",
        ending=Ending(kind="limit", detail="to\0kens" * 20, evidence="\0"),
        grade=GradeReport(
            verdict="solved", score=1.0, checks=(Check(name="a\0", passed=True, detail="\0b"),), output="\0", error="\0"
        ),
    )
    assert record(run, [bad]) == 1
    assert Grade.objects.get().checks == [{"name": "a\ufffd", "passed": True, "detail": "\ufffdb"}]


def test_an_infra_failure_is_planned_again_and_after_the_cap_parked_with_its_evidence() -> None:
    run = running()
    (one,) = plan_and_claim(run, 1)
    seen = []
    for _ in range(3):
        record(run, [make_outcome(one, run.pk, "none")])
        rollout = Rollout.objects.get()
        seen.append((rollout.state, rollout.attempt, rollout.parked_reason, rollout.finished_at is not None))
        one = (claim(run) or [one])[0]
    assert seen == [("planned", 1, "", False), ("planned", 2, "", False), ("parked", 3, "no disk", True)]
    assert Trajectory.objects.with_verdict().count() == 0


def test_what_is_wrong_with_the_task_itself_is_not_tried_again() -> None:
    run = running()
    (one,) = plan_and_claim(run, 1)
    broken = Ending(kind="infra", detail="task", evidence="reward.txt is empty")
    record(run, [make_outcome(one, run.pk, "none", ending=broken)])
    rollout = Rollout.objects.get()
    assert (rollout.state, rollout.attempt, rollout.parked_reason) == ("parked", 1, "reward.txt is empty")
    assert rollout.finished_at is not None
    assert claim(run) == []


def test_what_has_no_verdict_never_gets_a_reward() -> None:
    run = running()
    first, second = plan_and_claim(run)
    record(run, [make_outcome(first, run.pk, "none"), make_outcome(second, run.pk)])
    score_new(run)
    assert Reward.objects.get().trajectory.rollout_id == second.rollout_id


@pytest.mark.parametrize(
    ("ending", "grade"),
    [
        (Ending(kind="infra", detail="box"), GradeReport(verdict="solved", score=1.0)),
        (Ending(kind="submitted"), GradeReport(verdict="none", score=None, error="broken")),
        (Ending(kind="submitted"), GradeReport(verdict="none", score=0.5)),
        (Ending(kind="submitted"), GradeReport(verdict="solved", score=1.5)),
        (Ending(kind="submitted"), GradeReport(verdict="solved", score=None)),
    ],
)
def test_an_ending_and_a_verdict_that_do_not_fit_are_an_infra_failure(ending: Ending, grade: GradeReport) -> None:
    run = running()
    (one,) = plan_and_claim(run, 1)
    record(run, [make_outcome(one, run.pk, ending=ending, grade=grade)])
    assert list(Grade.objects.values_list("verdict", "score")) == [("none", None)]
    assert Attempt.objects.get().ending_kind == "infra"
    assert Rollout.objects.get().state == "planned"


def test_scoring_twice_rewards_once() -> None:
    run = running()
    record(run, [make_outcome(one, run.pk) for one in plan_and_claim(run)])
    assert [score_new(run) for _ in range(2)] == [2, 0]
    assert re.fullmatch(r"1\.0 by all-or-nothing@1", str(Reward.objects.first()))


def played(outcome: Outcome, *ends: str) -> Outcome:
    rounds = tuple(
        msgspec.structs.replace(outcome.rounds[0], index=index + 1, end=end) for index, end in enumerate(ends)
    )
    return msgspec.structs.replace(outcome, rounds=rounds)


def command_ends() -> dict[str, int]:
    return dict(CommandEnds.objects.values_list("end", "count"))


def test_how_commands_ended_is_counted_as_their_attempts_are_recorded() -> None:
    run = running()
    first, second = plan_and_claim(run)
    record(run, [played(make_outcome(first, run.pk), "exited", "timed_out", "exited", "")])
    assert command_ends() == {"exited": 2, "timed_out": 1}
    record(run, [played(make_outcome(second, run.pk), "exited", "out_of_memory")])
    assert command_ends() == {"exited": 3, "timed_out": 1, "out_of_memory": 1}


def test_commands_of_what_is_recorded_already_are_not_counted_again() -> None:
    run = running()
    (one,) = plan_and_claim(run, 1)
    outcome = played(make_outcome(one, run.pk), "exited")
    record(run, [outcome, outcome])
    record(run, [outcome])
    assert command_ends() == {"exited": 1}


def test_commands_before_a_break_of_ours_count_too_and_words_of_a_newer_worker_are_kept() -> None:
    run = running()
    (one,) = plan_and_claim(run, 1)
    broken = msgspec.structs.replace(
        make_outcome(one, run.pk, "none"), ending=Ending(kind="infra", detail="box", evidence="gone")
    )
    record(run, [played(broken, "exited", "a word that is longer than any")])
    assert command_ends() == {"exited": 1, "a word that is longe": 1}
