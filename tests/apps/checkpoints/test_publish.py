import pytest

from apps.checkpoints.adopt import adopt_checkpoints
from apps.checkpoints.models import Checkpoint
from apps.checkpoints.publish import publish_versions
from apps.fleet.models import Endpoint
from apps.lifecycle.models import Event
from apps.runs.models import Run
from tests.apps.factories import START, make_run
from tests.apps.policy_server import PolicyServer

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("store")]


@pytest.fixture
def run(policy_server: PolicyServer, store: object) -> Run:
    run = make_run(url=policy_server.url)
    adopt_checkpoints(run)
    return run


def test_a_wanted_version_is_loaded_once(run: Run, policy_server: PolicyServer) -> None:
    for _ in range(2):
        assert publish_versions(run, {0}, now=START).versions == {0}
    assert [load["name"] for load in policy_server.loads] == [f"{run.pk}@0"]
    assert policy_server.loads[0]["prefix"] == "policies/run"
    assert Checkpoint.objects.get().state == "live"
    assert Event.objects.filter(kind="checkpoint.live").count() == 1


@pytest.mark.parametrize("state", ["written", "publishing"])
def test_what_is_served_is_live_though_who_had_it_loaded_died(
    run: Run, policy_server: PolicyServer, state: str
) -> None:
    Checkpoint.objects.update(state=state)
    policy_server.served = [f"{run.pk}@0"]
    for _ in range(2):
        assert publish_versions(run, {0}, now=START).versions == {0}
    assert Checkpoint.objects.get().state == "live"
    assert Event.objects.filter(kind="checkpoint.live").count() == 1
    assert policy_server.loads == []


def test_after_a_restart_what_is_missing_is_loaded_again(run: Run, policy_server: PolicyServer) -> None:
    publish_versions(run, {0}, now=START)
    policy_server.served = []
    assert publish_versions(run, {0}, now=START).versions == {0}
    assert len(policy_server.loads) == 2


def test_a_refusal_is_told_and_nothing_counts_as_served(run: Run, policy_server: PolicyServer) -> None:
    policy_server.refusal = "the digest differs"
    found = publish_versions(run, {0}, now=START)
    assert found.versions == frozenset()
    assert found.problem == "Version 0 is not served: the digest differs"
    assert found.refused == {0: "the digest differs"}


@pytest.mark.parametrize("status", [409, 429, 503])
def test_a_server_that_is_busy_has_not_refused_for_good(run: Run, policy_server: PolicyServer, status: int) -> None:
    policy_server.refusal, policy_server.refusal_status = "try again", status
    found = publish_versions(run, {0}, now=START)
    assert (found.problem, found.refused) == ("Version 0 is not served: try again", {})


def test_what_was_just_loaded_counts_as_served(run: Run) -> None:
    publish_versions(run, {0}, now=START)
    assert Endpoint.objects.get().served == [f"{run.pk}@0"]


def test_a_version_without_a_checkpoint_is_waited_for(run: Run) -> None:
    assert publish_versions(run, {0, 9}, now=START).versions == {0}


def test_an_endpoint_that_does_not_answer_serves_nothing_and_says_so(run: Run, policy_server: PolicyServer) -> None:
    Endpoint.objects.update(url="http://127.0.0.1:9")
    run.refresh_from_db()
    assert publish_versions(run, {0}, now=START).versions == frozenset()
    endpoint = Endpoint.objects.get()
    assert not endpoint.healthy
    assert "ConnectError" in endpoint.error


def test_adopting_twice_makes_one_checkpoint(run: Run) -> None:
    assert adopt_checkpoints(run) == 0
    assert Checkpoint.objects.values_list("version", "kind").get() == (0, "base")
