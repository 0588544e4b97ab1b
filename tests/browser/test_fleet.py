"""The fleet page at every width: what was found of a host opens, and nothing scrolls sideways."""

import pytest
from django.test import Client
from django.utils import timezone
from playwright.sync_api import BrowserContext, expect

from apps.fleet.models import Worker
from tests.apps.dashboard.people import make_user
from tests.browser.pages import Web, browser, collect_static, web_process

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

COMMAND = "for top in /sys/fs/cgroup/cpu /sys/fs/cgroup/memory; do sudo install -d -o 1000 $top/assay-user-1000; done"
FINDINGS = [
    {
        "about": about,
        "name": name,
        "state": state,
        "found": "version 1 at /sys/fs/cgroup/{cpu,memory} " * 3,
        "mend": mend,
    }
    for about, name, state, mend in (
        ("host", "control groups", "weaker", f"Give ana a group: `{COMMAND}`."),
        ("host", "Docker Engine", "not needed", ""),
        ("bubblewrap", "memory", "ok", ""),
    )
]


def test_a_host_opens_into_its_rows_and_no_width_scrolls_sideways(transactional_db: None, client: Client) -> None:
    for host in ("node-a", "node-b"):
        now = timezone.now()
        Worker.objects.create(
            incarnation=host, kind="sandbox", host=host, pid=1, started_at=now, heartbeat_at=now, examined_at=now,
            findings=FINDINGS,
        )  # fmt: skip
    client.force_login(make_user("ana", "viewer"))
    cookies = {name: morsel.value for name, morsel in client.cookies.items()}
    collect_static()
    with web_process() as web, browser(web, cookies) as context:
        look(context, web)


def look(context: BrowserContext, web: Web) -> None:
    page = context.new_page()
    for width in (390, 1024, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(f"{web.address}/fleet")
        row = page.get_by_text("Docker Engine").first
        expect(row).to_be_hidden()
        page.locator("details.host summary").first.click()
        expect(row).to_be_visible()
        expect(page.get_by_text(COMMAND).first).to_be_visible()
        over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert over <= 0, f"the fleet at {width} scrolls sideways"
