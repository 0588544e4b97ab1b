import msgspec
import pytest
from django.db.models import Max

from apps.buffer.admit import admit_groups
from apps.buffer.cut import cut_batch, cut_traces, flat_since_batch
from apps.buffer.ledger import ledger
from apps.buffer.models import Batch, Sample
from apps.buffer.staleness import branch_lag
from apps.rewards.score import score_new
from apps.rollouts.models import Group
from apps.runs.models import Run
from learner.messages import BatchData
from tests.apps.factories import CONFIG, play, running
from wire.store import FolderStore

pytestmark = pytest.mark.django_db


def buffered(*groups: tuple[int, list[str]], live: set[int]) -> Run:
    """Admitted groups, each with the version that played it."""
    run = running()
    for version, verdicts in groups:
        run.take_version(version)
        play(run, verdicts)
    run.take_version(max(live))
    score_new(run)
    admit_groups(run, live_versions=live)
    return run


def cut(run: Run, store: FolderStore, live: set[int], **changes: int) -> Batch | None:
    batch = cut_batch(run, msgspec.structs.replace(CONFIG, **changes), store, live_versions=live)
    assert ledger(run).exact, ledger(run).problems
    return batch


def fates(run: Run) -> list[tuple[str, str]]:
    return list(Group.objects.of(run).order_by("id").values_list("state", "dropped_reason"))


MIXED = ["solved", "unsolved"]


def test_enough_groups_make_a_batch_of_exactly_the_recorded_ids(store: FolderStore) -> None:
    run = buffered((0, MIXED), (0, MIXED), live={0})
    batch = cut(run, store, {0})
    assert batch is not None
    data = msgspec.json.decode(store.get(batch.key), type=BatchData)
    assert [group.rewards for group in data.groups] == [(1.0, 0.0), (1.0, 0.0)]
    sample = data.groups[0].samples[0]
    assert (sample.ids, sample.trainable) == ((1, 2, 3, 4, 5), (False, False, True, True, True))
    assert sample.logprobs == (-0.1, -0.2, -0.3)
    assert (batch.sequences, batch.tokens, batch.max_staleness) == (4, 12, 0)
    assert set(Sample.objects.values_list("state", "staleness")) == {("handed", 0)}
    assert fates(run) == [("consumed", "")] * 2


def test_too_few_groups_make_no_batch(store: FolderStore) -> None:
    run = buffered((0, MIXED), live={0})
    assert cut(run, store, {0}) is None
    assert fates(run) == [("admitted", "")]


def test_flat_groups_are_met_on_the_way_and_left_out(store: FolderStore) -> None:
    run = buffered((0, MIXED), (0, ["solved", "solved"]), live={0})
    batch = cut(run, store, {0})
    assert batch is not None
    assert (batch.groups, batch.flat_groups) == (1, 1)
    assert fates(run) == [("consumed", ""), ("dropped", "flat")]


def test_flat_groups_alone_make_no_batch(store: FolderStore) -> None:
    run = buffered((0, ["solved", "solved"]), (0, ["unsolved", "unsolved"]), live={0})
    assert cut(run, store, {0}) is None
    assert fates(run) == [("dropped", "flat")] * 2
    assert flat_since_batch(run) == 2


def test_a_batch_counts_every_flat_group_since_the_one_before(store: FolderStore) -> None:
    flat = ["solved", "solved"]
    run = buffered((0, flat), (0, flat), (0, MIXED), (0, flat), (0, MIXED), (0, MIXED), live={0})
    assert cut(run, store, {0}) is None
    first = cut(run, store, {0})
    assert first is not None
    assert (first.groups, first.flat_groups) == (1, 3)
    first.move("handed")
    first.move("applied")
    second = cut(run, store, {0})
    assert second is not None
    assert (second.groups, second.flat_groups) == (2, 0)


@pytest.mark.parametrize(("eta", "fate"), [(0, ("dropped", "stale")), (1, ("consumed", ""))])
def test_a_group_older_than_the_bound_is_stale(store: FolderStore, eta: int, fate: tuple[str, str]) -> None:
    run = buffered((0, MIXED), (1, MIXED), (1, MIXED), live={0, 1})
    cut(run, store, {0, 1}, max_staleness=eta)
    assert fates(run)[0] == fate
    assert Sample.objects.aggregate(most=Max("staleness"))["most"] == eta


def test_numbers_that_a_rewind_left_behind_are_no_steps(store: FolderStore) -> None:
    live = {0, 1, 31}
    run = buffered((1, MIXED), (31, MIXED), live=live)
    batch = cut(run, store, live, max_staleness=1)
    assert batch is not None
    assert (batch.max_staleness, batch.mean_staleness) == (1, 0.5)
    assert branch_lag(1, live) == 1


def test_every_trace_comes_once_an_epoch(store: FolderStore) -> None:
    run = running()
    for _ in range(4):
        play(run, ["solved"], purpose="reference", script="reference")
    play(run, ["unsolved"], purpose="reference", script="reference")
    seen: list[int] = []
    for step in range(2):
        batch = cut_traces(run, CONFIG, store, step=step)
        assert batch is not None
        data = msgspec.json.decode(store.get(batch.key), type=BatchData)
        seen += [group.trajectory_ids[0] for group in data.groups]
        batch.move("returned")
    assert len(seen) == len(set(seen)) == 4


def test_without_a_solved_trace_there_is_no_batch(store: FolderStore) -> None:
    run = running()
    play(run, ["unsolved"], purpose="reference", script="reference")
    assert cut_traces(run, CONFIG, store, step=0) is None
