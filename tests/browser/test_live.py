"""The run page stays true: socket, polling where sockets are blocked, stale where nothing answers, and back."""

from collections.abc import Iterator

import pytest
from django.test import Client
from playwright.sync_api import BrowserContext, Page, expect

from apps.accounts.models import Project
from apps.lifecycle.announce import announce
from apps.runs.models import Run
from apps.trajectories.store import object_store
from tests.apps.dashboard.factory import make_run, small_run
from tests.apps.dashboard.people import make_task_set, make_user
from tests.browser.pages import Web, beside, browser, collect_static, web_process

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

MS = 30_000
HIDE = """hidden => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture(scope="module")
def web(django_db_setup: None) -> Iterator[Web]:
    collect_static()
    with web_process() as found:
        yield found


@pytest.fixture
def run(transactional_db: None) -> Run:
    task_set = make_task_set(Project.default(), object_store(), train=1, held_out=0, unseen=0)
    return make_run(make_user("ana", "operator"), task_set=task_set)


@pytest.fixture
def context(web: Web, run: Run, client: Client) -> Iterator[BrowserContext]:
    user = run.created_by
    assert user is not None
    client.force_login(user)
    with browser(web, _cookies(client)) as found:
        yield found


def test_what_happens_appears_without_loading_the_page_again(web: Web, run: Run, context: BrowserContext) -> None:
    page, complaints = _open(context, web, run)
    expect(page.locator("[data-pill]")).to_have_text("Live", timeout=MS)
    page.evaluate("window.loadedOnce = true")
    _tell(run, "a longer clip")
    expect(page.locator(".events")).to_contain_text("a longer clip", timeout=MS)
    assert page.evaluate("window.loadedOnce") is True
    assert complaints == []


def test_charts_are_drawn_under_the_strict_policy_and_no_page_scrolls_sideways(
    web: Web, transactional_db: None, client: Client
) -> None:
    user = make_user("ana", "operator")
    run = small_run(user)
    client.force_login(user)
    with browser(web, _cookies(client)) as context:
        _draw_and_measure(context, web, run)


def _draw_and_measure(context: BrowserContext, web: Web, run: Run) -> None:
    page, complaints = _open(context, web, run)
    charts = page.locator("[data-chart]")
    expect(page.locator("[data-chart].js-plotly-plot")).to_have_count(charts.count(), timeout=MS)
    assert complaints == []
    rollout = beside(lambda: run.rollouts.filter(state="recorded").values_list("pk", flat=True).first())
    for width in (390, 1024, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        for path in ("", "runs/new", f"runs/{run.pk}", f"runs/{run.pk}/rollouts", f"rollouts/{rollout}", "tasks"):
            page.goto(f"{web.address}/{path}")
            over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert over <= 0, f"/{path} at {width} scrolls sideways"


def test_where_sockets_are_blocked_the_page_polls_the_same_news(web: Web, run: Run, context: BrowserContext) -> None:
    context.route_web_socket("**/ws/**", lambda socket: socket.close())
    page, _ = _open(context, web, run)
    expect(page.locator("[data-pill]")).to_have_attribute("data-state", "polling", timeout=MS)
    _tell(run, "told by polling")
    expect(page.locator(".events")).to_contain_text("told by polling", timeout=MS)


def test_a_page_that_hears_nothing_says_since_when_and_catches_up(web: Web, run: Run, context: BrowserContext) -> None:
    page, _ = _open(context, web, run)
    expect(page.locator("[data-pill]")).to_have_text("Live", timeout=MS)
    web.stop()
    expect(page.locator("[data-pill]")).to_contain_text("Stale since", timeout=MS)
    _tell(run, "told while nobody answered")
    web.start()
    expect(page.locator("[data-pill]")).to_have_text("Live", timeout=2 * MS)
    expect(page.locator(".events")).to_contain_text("told while nobody answered", timeout=MS)


def test_a_page_that_nobody_looks_at_fetches_what_it_missed_once(web: Web, run: Run, context: BrowserContext) -> None:
    page, _ = _open(context, web, run)
    expect(page.locator("[data-pill]")).to_have_text("Live", timeout=MS)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/live?" in request.url else None)
    page.evaluate(HIDE, True)
    for words in ("first of many", "second of many", "last of many"):
        _tell(run, words)
        page.wait_for_timeout(800)  # until the socket has told of each
    page.evaluate(HIDE, False)
    expect(page.locator(".events")).to_contain_text("last of many", timeout=MS)
    assert len(asked) == 1


def test_a_list_that_is_not_answered_says_since_when_and_recovers(web: Web, run: Run, context: BrowserContext) -> None:
    page = context.new_page()
    page.goto(web.address)
    expect(page.locator(".pill")).to_have_text("Polling every 10 s, 1 active")
    page.focus(f"#run-{run.pk}")
    web.stop()
    expect(page.locator(".pill")).to_contain_text("Stale since", timeout=MS)
    web.start()
    expect(page.locator(".pill")).to_have_text("Polling every 10 s, 1 active", timeout=MS)
    assert page.evaluate("document.activeElement.id") == f"run-{run.pk}"


def test_a_verb_takes_effect_and_the_page_follows(web: Web, run: Run, context: BrowserContext) -> None:
    page, _ = _open(context, web, run)
    page.click("[data-open-dialog=pause]")
    page.fill("#why-pause", "node swap")
    page.click("#pause button[type=submit]")
    expect(page.locator(".page-title .badge")).to_have_text("Paused", timeout=MS)
    expect(page.locator(".events")).to_contain_text("by ana: node swap", timeout=MS)
    assert beside(lambda: run.reread().state) == "paused"


def test_the_reader_s_theme_is_kept(web: Web, run: Run, context: BrowserContext) -> None:
    page, _ = _open(context, web, run)
    page.click("[data-theme-toggle]")
    chosen = page.evaluate("document.documentElement.dataset.theme")
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == chosen


def test_the_palette_is_worked_by_keys_alone(web: Web, run: Run, context: BrowserContext) -> None:
    page, _ = _open(context, web, run)
    page.keyboard.press("Control+k")
    page.keyboard.type("told-word-train")
    chosen = page.locator('#palette [aria-selected="true"]')
    expect(chosen).to_contain_text("told-word-train-0", timeout=MS)
    assert page.get_attribute("#palette input", "aria-activedescendant") == chosen.get_attribute("id")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("told-word-train-0", timeout=MS)


def _open(context: BrowserContext, web: Web, run: Run) -> tuple[Page, list[str]]:
    """The run page, and what the browser complains of."""
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{web.address}/runs/{run.pk}")
    return page, complaints


def _cookies(client: Client) -> dict[str, str]:
    return {name: morsel.value for name, morsel in client.cookies.items()}


def _tell(run: Run, words: str) -> None:
    beside(lambda: announce(run.stream(), "run.revised", words))
