"""The main job by hand, on the whole stack: sign in, launch a run, watch it, open a rollout, pause, resume."""

import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from tests.browser.pages import CHROMIUM, QUIET
from tests.chaos.stack import Stack, supplied_stack

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.sandbox]

MS = 60_000
RUN_SECONDS = 180
FEW = {
    "group_size": "4",
    "groups_per_step": "2",
    "grpo_steps": "40",
    "sft_steps": "2",
    "sft_batch": "2",
    "sft_traces_per_family": "1",
    "round_tokens": "10",
    "evaluation_tries": "2",
    "evaluation_every": "0",
}
"""The preset's values would take minutes."""


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with supplied_stack() as stack:
        yield stack


@pytest.fixture
def page(stack: Stack) -> Iterator[Page]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        page = chromium.new_page(viewport={"width": 1440, "height": 1000})
        page.set_default_timeout(MS)
        yield page
        chromium.close()


def test_a_person_launches_watches_opens_pauses_and_resumes(stack: Stack, page: Page) -> None:
    address = f"http://127.0.0.1:{stack.ports[0]}"
    sign_in(page, address, shown_password(stack))
    launch(page, address)
    # A change of state or phase loads the page anew, for its verbs; everything else must come by itself.
    expect(page.locator("[data-live='state.phase']")).to_have_text("GRPO", timeout=RUN_SECONDS * 1000)
    page.evaluate("window.loadedOnce = true")
    expect(page.locator("[data-pill]")).to_have_text("Live", timeout=MS)
    charts_move(page)
    assert page.evaluate("window.loadedOnce") is True, "the page was loaded again"
    run_url = page.url
    open_a_rollout(page, run_url)
    page.goto(run_url)
    pause_and_resume(page)


def shown_password(stack: Stack) -> str:
    """As `up` shows it, once."""
    found = re.search(r"Sign in as admin with the password (\S+)", (stack.data / "up.out").read_text())
    assert found, stack.story()
    return found[1]


def sign_in(page: Page, address: str, password: str) -> None:
    page.goto(address)
    page.fill("input[name=username]", "admin")
    page.fill("input[name=password]", password)
    page.click("button[type=submit]")
    expect(page.locator("h1")).to_have_text("Runs", timeout=MS)


def launch(page: Page, address: str) -> None:
    page.goto(f"{address}/runs/new?preset=control")
    page.check("input[name=preset][value=control]")
    page.wait_for_load_state("networkidle")
    page.fill("#f-name", "by hand")
    for fold in page.locator("details.fold").all():
        fold.evaluate("fold => { fold.open = true }")
    for name, value in FEW.items():
        page.fill(f"[name={name}]", value)
    page.click("button:has-text('Start run')")
    expect(page.locator("h1")).to_have_text("by hand", timeout=MS)


def charts_move(page: Page) -> None:
    """The learner's charts get points, and more of them later, while nobody touches the page."""
    before = points_above(page, 0)
    points_above(page, before + 4)


def points_above(page: Page, least: int) -> int:
    """Wait until the charts show more points than that; how many."""
    count = """() => Array.from(document.querySelectorAll('.js-plotly-plot'))
        .flatMap(plot => plot.data || []).reduce((sum, trace) => sum + (trace.y ? trace.y.length : 0), 0)"""
    deadline = time.monotonic() + RUN_SECONDS
    while time.monotonic() < deadline:
        if (found := int(page.evaluate(count))) > least:
            return found
        page.wait_for_timeout(300)
    raise AssertionError(f"the charts did not get more than {least} points in {RUN_SECONDS} s")


def open_a_rollout(page: Page, run_url: str) -> None:
    page.goto(f"{run_url}/rollouts?verdict=unsolved")  # the newest are still running
    page.locator("table a[href^='/rollouts/']").first.click()
    expect(page.locator(".round").first).to_be_visible(timeout=MS)


def pause_and_resume(page: Page) -> None:
    badge = page.locator(".page-title .badge")
    page.click("[data-open-dialog=pause]")
    page.fill("#why-pause", "a look at the boxes")
    page.click("#pause button[type=submit]")
    expect(badge).to_have_text("Paused", timeout=MS)
    page.click("[data-open-dialog=resume]")
    page.click("#resume button[type=submit]")
    expect(badge).to_have_text(re.compile("Running|Finished"), timeout=MS)
