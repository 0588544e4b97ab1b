"""The fleet, and what every page says of weaker isolation."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.template.loader import render_to_string
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from apps.accounts.models import Project, User
from apps.fleet.models import Endpoint, Worker
from apps.runs.models import Run
from tests.apps.dashboard.factory import make_run
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


def test_places_in_use_are_those_that_run_and_the_rest_waits(client: Client) -> None:
    make_worker("a1", capacity=32, busy=53)
    client.force_login(make_user("ana", "viewer"))
    assert client.get("/fleet").content.decode().count("32 of 32, 21 wait") == 2


def test_why_a_host_runs_no_boxes_is_said_until_a_worker_is_ready(client: Client) -> None:
    words = "This host cannot isolate: no control group can be made. Run the worker as root."
    make_worker("r1", host="node-r", gone="cannot work on this host", refused=words, capacity=0, busy=0)
    client.force_login(make_user("ana", "viewer"))
    page = client.get("/fleet").content.decode()
    assert '<div class="callout" data-tone="broken"' in page
    assert "node-r cannot run boxes" in page
    assert page.count(words) == 1
    assert "Refused" in page
    make_worker("a1", host="node-a")
    page = client.get("/fleet").content.decode()
    assert "cannot run boxes" not in page
    assert words in page, "among those that are gone"


def rows(state: str, mend: str = "") -> list[dict[str, str]]:
    return [
        {"about": "host", "name": "kernel", "state": "ok", "found": "Linux 6.12 on x86_64", "mend": ""},
        {"about": "bubblewrap", "name": "memory", "state": state, "found": "48 MiB <held>", "mend": mend},
        {"about": "bubblewrap", "name": "cpu", "state": state, "found": "0.25 of a core", "mend": mend},
    ]


def hosts_shown(page: str) -> list[str]:
    return re.findall(r'<span class="host-name">([^<]*)</span>', page)


def test_hosts_stand_once_each_with_what_was_found_the_worst_first(client: Client) -> None:
    for number in range(50):
        make_worker(f"w{number}", host=f"node-{number // 10}", slot=str(number), findings=rows("ok"))
    make_worker("weak", host="node-w", findings=rows("weaker", "Delegate cpu."))
    make_worker(
        "r1", host="node-z", gone="cannot work on this host", refused="No.", findings=rows("missing", "Do `it`.")
    )
    client.force_login(make_user("ana", "viewer"))
    page = client.get("/fleet").content.decode()
    assert hosts_shown(page) == ["node-z", "node-w", *(f"node-{number}" for number in range(5))]
    assert page.count("10 workers, examined") == 5
    assert "Boxes of bubblewrap" in page
    assert "48 MiB &lt;held&gt;" in page
    assert page.count("Do <code>it</code>.") == 1, "one cause, one thing to do"
    assert "memory, cpu." in page
    assert page.count('<details class="fold host" open>') == 1, "the host that cannot isolate"
    assert "2 missing, 1 ok" in page


def test_of_several_workers_on_a_host_the_one_that_found_most_wrong_is_shown(client: Client) -> None:
    make_worker("a1", slot="1", findings=rows("weaker", "Delegate cpu."))
    make_worker("a2", slot="2", findings=rows("ok"))
    client.force_login(make_user("ana", "viewer"))
    page = client.get("/fleet").content.decode()
    assert hosts_shown(page) == ["node-a"]
    assert "Delegate cpu." in page


def test_a_refused_host_goes_once_a_worker_of_it_works(client: Client) -> None:
    make_worker("r1", gone="cannot work on this host", refused="No.", findings=rows("missing", "Do it."))
    client.force_login(make_user("ana", "viewer"))
    assert "Do it." in client.get("/fleet").content.decode()
    make_worker("a1", findings=rows("ok"))
    page = client.get("/fleet").content.decode()
    assert hosts_shown(page) == ["node-a"]
    assert "Do it." not in page


def test_workers_that_told_nothing_show_no_hosts(client: Client) -> None:
    make_worker("a1")
    client.force_login(make_user("ana", "viewer"))
    assert 'id="h-h"' not in client.get("/fleet").content.decode()


POOL = {
    "pool_most": 16, "pool_hits": 90, "pool_misses": 10, "acquire_p50_ms": 0.14, "acquire_p95_ms": 41.0,
    "refills_per_second": 11.4, "starts_waiting": 7, "starts_now": 4, "start_wait_p50_ms": 0.02,
    "start_wait_p95_ms": 320.0, "boxes_started": 100, "boxes_failed": 2, "boxes_reaped": 5, "boxes_unstopped": 0,
}  # fmt: skip


def boxes_of(client: Client) -> str:
    client.force_login(make_user("ana", "viewer"))
    page = client.get("/fleet").content.decode()
    part = page.split('id="h-b"')[1].split("</section>")[0] if 'id="h-b"' in page else ""
    return re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", part))


def test_how_boxes_come_about_stands_with_its_numbers(client: Client) -> None:
    make_worker("a1", counters=POOL, warm={"/srv, 1 cpu": 2, "/app, 1 cpu": 9})
    part = boxes_of(client)
    for words in (
        "11 of at most 16 9 \u00d7 /app, 1 cpu 2 \u00d7 /srv, 1 cpu", "90.0 % 90 of 100", "0.14 ms, 41 ms", "11.4",
        "7 4 starting", "0.02 ms, 320 ms",
    ):  # fmt: skip
        assert words in part
    assert part.endswith("100 2 5 "), "started, failed, reaped"


def test_boxes_that_did_not_stop_are_told_with_what_to_do(client: Client) -> None:
    make_worker("a1", counters=POOL | {"boxes_unstopped": 1})
    assert "1 box on node-a did not stop." in boxes_of(client)


def test_why_no_warm_boxes_come_is_told(client: Client) -> None:
    make_worker("a1", counters=POOL, trouble="/app: the image <is> gone")
    assert "A box that should wait on node-a does not start. /app: the image &lt;is&gt; gone" in boxes_of(client)


def test_a_pool_that_is_off_or_was_asked_for_nothing_says_so(client: Client) -> None:
    make_worker("a1", counters={"pool_most": 0, "pool_hits": 0, "pool_misses": 0})
    make_worker("a2", slot="1", counters={"pool_most": 8, "pool_hits": 0, "pool_misses": 0})
    make_worker("a3", slot="2", counters={})
    part = boxes_of(client)
    assert "off ( ASSAY_WARM_BOXES=0 )" in part
    assert "0 of at most 8 they come with demand" in part
    assert "not told yet" in part
    assert "0.0 %" not in part


def test_learners_make_no_boxes(client: Client) -> None:
    make_worker("l1", kind="learner")
    assert boxes_of(client) == ""


def test_two_learners_at_once_are_said_to_be_one_too_many(client: Client) -> None:
    make_worker("l1", kind="learner")
    make_worker("l2", kind="learner", slot="1", late=60)
    client.force_login(make_user("ana", "viewer"))
    assert "only one may" not in client.get("/fleet").content.decode()
    make_worker("l3", kind="learner", slot="2")
    assert "2 learners answer, and only one may" in client.get("/fleet").content.decode()


def test_weaker_isolation_is_said_on_every_page_once(client: Client) -> None:
    make_worker("a1", weaker=WEAKER)
    make_worker("a2", slot="1", weaker=WEAKER)
    client.force_login(make_user("ana", "operator"))
    for address in ("/", "/tasks", "/policies", "/runs/new", "/nothing-here"):
        assert client.get(address).content.decode().count("Boxes are isolated less than by default.") == 1


def test_weaker_isolation_is_said_to_whoever_signs_in_and_to_admins(client: Client) -> None:
    make_worker("a1", weaker=WEAKER)
    words = "Boxes are isolated less than by default."
    assert client.get("/login/").content.decode().count(words) == 1
    assert render_to_string("500.html").count(words) == 1
    client.force_login(User.objects.create_superuser("root"))
    assert client.get("/admin/").content.decode().count(words) == 1


def test_the_page_for_a_database_that_is_away_asks_it_nothing(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    with django_assert_num_queries(0):
        assert "does not answer" in render_to_string("503.html")


def test_a_weaker_worker_that_is_late_still_weakens(client: Client) -> None:
    make_worker("a1", weaker=WEAKER, late=60)
    client.force_login(make_user("ana", "operator"))
    assert "isolated less" in client.get("/").content.decode()


def test_names_of_runs_that_one_may_not_see_are_counted_not_shown(client: Client) -> None:
    user = make_user("ana", "viewer")
    run = make_run(user)
    hidden = make_run(user, name="hidden", task_set=run.task_set)
    Run.objects.filter(pk=hidden.pk).update(project=Project.objects.create(slug="other", name="Other"))
    Endpoint.objects.update(served=["base", f"{run.pk}@0", f"{hidden.pk}@0", f"{hidden.pk}@3"])
    client.force_login(user)
    page = client.get("/fleet").content.decode()
    assert f"serves base, {run.pk}@0 and 2 of other projects" in page
    assert f"{hidden.pk}@" not in page
    client.force_login(User.objects.create_superuser("root"))
    assert f"{hidden.pk}@3" in client.get("/fleet").content.decode()


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
        "counters": {"boxes_started": 100, "box_failures": 2},
        **more,
    }
    return Worker.objects.create(
        incarnation=incarnation,
        started_at=now - timedelta(hours=1),
        heartbeat_at=now - timedelta(seconds=late),
        gone_at=now if gone else None,
        gone_reason=gone,
        **fields,
    )
