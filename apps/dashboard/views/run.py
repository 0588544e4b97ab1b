"""Entry points of the run page, its verbs, and the live message for polling."""

from typing import Any

import msgspec
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from apps.dashboard import asked
from apps.dashboard.new_run import GROUPS, texts
from apps.dashboard.queries import events
from apps.dashboard.queries.live import live_message
from apps.dashboard.queries.run import RunPage, run_page, visible_run
from apps.dashboard.queries.steps import drawn
from apps.runs import control
from apps.runs.models import Run

VERBS = {"pause": control.pause, "resume": control.resume, "cancel": control.cancel}
DONE_WORDS = {"pause": "Paused.", "resume": "Resumed.", "cancel": "Cancelling."}
LONGEST_REASON = 400


@login_required
@never_cache
@require_GET
def run(request: HttpRequest, pk: int) -> HttpResponse:
    now = timezone.now()
    try:
        page = run_page(request.user, pk, now)
    except Run.DoesNotExist:
        raise Http404 from None
    context = {
        "section": "runs",
        "page": page,
        "run": page.run,
        "now": now,
        "tab": "overview",
        "data": _data(page, now.timestamp()),
    }
    part = {"live-parts": "dashboard/parts/run_parts.html"}.get(request.headers.get("HX-Target", ""))
    return render(request, part or "dashboard/run.html", context)


def _data(page: RunPage, server_time: float) -> dict[str, Any]:
    """What the page's scripts start from."""
    pk = page.run.pk
    return {
        "seq": page.seq,
        "server_time": server_time,
        "live": not page.run.ended,
        "socket_url": f"/ws/runs/{pk}",
        "poll_url": reverse("dashboard:run_live", args=[pk]),
        "state": {"state": page.run.state, "phase": page.phase},
        "series": drawn(page.series),
    }


@login_required
@never_cache
@require_GET
def run_live(request: HttpRequest, pk: int) -> HttpResponse:
    try:
        message = live_message(request.user, pk, asked.number(request.GET, "since") or 0, timezone.now())
    except Run.DoesNotExist:
        raise Http404 from None
    return HttpResponse(msgspec.json.encode(message), content_type="application/json")


@login_required
@require_POST
def run_verb(request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    found = _visible(request, pk)
    if not found.project.allows(request.user, "operator"):
        raise PermissionDenied(f"To {verb} a run needs the role operator in its project.")
    reason = request.POST.get("reason", "").strip()[:LONGEST_REASON]
    if not asked.keepable(reason):
        messages.error(request, "Nothing changed: the reason holds a NUL character.", extra_tags="fail")
        return redirect("dashboard:run", pk)
    try:
        changed = VERBS[verb](found, request.user.get_username(), reason)
    except control.ControlError as error:
        messages.error(request, str(error), extra_tags="fail")
    else:
        words = DONE_WORDS[verb] if changed else "Nothing changed: it was asked before."
        messages.success(request, words, extra_tags="ok")
    return redirect("dashboard:run", pk)


@login_required
@require_GET
def run_events(request: HttpRequest, pk: int) -> HttpResponse:
    found = _visible(request, pk)
    rows, next_before = events.events_page(found, asked.number(request.GET, "before"))
    context = {"section": "runs", "run": found, "tab": "events", "rows": rows, "next_before": next_before}
    return render(request, "dashboard/events.html", context)


@login_required
@require_GET
def run_config(request: HttpRequest, pk: int) -> HttpResponse:
    found = _visible(request, pk)
    revisions = list(found.revisions.order_by("-number"))
    values = texts(found.config)
    context = {
        "section": "runs",
        "run": found,
        "tab": "config",
        "groups": GROUPS,
        "values": values,
        "revisions": revisions,
    }
    return render(request, "dashboard/config.html", context)


@login_required
@require_GET
def run_series(request: HttpRequest, pk: int) -> JsonResponse:
    """Every number behind the charts, whole: what a person takes elsewhere."""
    try:
        page = run_page(request.user, pk, timezone.now())
    except Run.DoesNotExist:
        raise Http404 from None
    response = JsonResponse(page.series)
    response["Content-Disposition"] = f'attachment; filename="run-{pk}-series.json"'
    return response


def _visible(request: HttpRequest, pk: int) -> Run:
    try:
        return visible_run(request.user, pk)
    except Run.DoesNotExist:
        raise Http404 from None
