"""The fleet, and what every page says of weaker isolation."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import Project
from apps.fleet.models import Worker
from tests.apps.dashboard.people import make_endpoint, make_policy, make_user

pytestmark = pytest.mark.django_db

WEAKER = "no user namespaces: boxes share the host's users"


def test_without_workers_the_page_says_how_to_start_them(client: Client) -> None:
    client.force_login(make_user("ana", "viewer"))
    assert "No worker answers" in client.get("/fleet").content.decode()


def test_workers_stand_with_state_places_and_isolation(client: Client) -> None:
    make_worker("a1", host="node-a")
    make_worker("b2", host="node-b", late=60)
    make_worker("c3", host="node-c", gone="no heartbeat")
    client.force_login(make_user("ana", "viewer"))
    page = client.get("/fleet").content.decode()
    assert "1 of 2 answer" in page
    for words in ("node-a", "Late", "Lost", "bubblewrap", "3 of 16"):
        assert words in page


def test_weaker_isolation_is_said_on_every_page_once(client: Client) -> None:
    make_worker("a1", weaker=WEAKER)
    make_worker("a2", slot="1", weaker=WEAKER)
    client.force_login(make_user("ana", "operator"))
    for address in ("/", "/tasks", "/policies", "/runs/new", "/nothing-here"):
        assert client.get(address).content.decode().count("Boxes are isolated less than by default.") == 1


def test_a_worker_that_left_weakens_nothing(client: Client) -> None:
    make_worker("a1", weaker=WEAKER, gone="stopped")
    client.force_login(make_user("ana", "operator"))
    assert "isolated less" not in client.get("/").content.decode()


def test_endpoints_are_shown(client: Client) -> None:
    make_endpoint()
    client.force_login(make_user("ana", "viewer"))
    page = client.get("/fleet").content.decode()
    assert "pins versions" in page


def test_policies_stand_with_their_origin(client: Client) -> None:
    make_policy(Project.default())
    client.force_login(make_user("ana", "viewer"))
    page = client.get("/policies").content.decode()
    assert "4.2M" in page
    assert "source bundled" in page


def test_policies_of_others_are_not_there(client: Client) -> None:
    make_policy(Project.default())
    client.force_login(make_user("eve", "admin", Project.objects.create(slug="other", name="Other")))
    assert "No policy yet" in client.get("/policies").content.decode()


def make_worker(incarnation: str, *, late: float = 1, gone: str = "", **more: Any) -> Worker:
    now = timezone.now()
    fields = {
        "kind": "sandbox",
        "host": "node-a",
        "pid": 7,
        "capacity": 16,
        "busy": 3,
        "isolation": "bubblewrap",
        **more,
    }
    return Worker.objects.create(
        incarnation=incarnation,
        started_at=now - timedelta(hours=1),
        heartbeat_at=now - timedelta(seconds=late),
        gone_at=now if gone else None,
        gone_reason=gone,
        counters={"boxes_started": 100, "box_failures": 2},
        **fields,
    )
