"""Entry points of the rollout table and the rollout page."""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import urlencode
from django.views.decorators.http import require_GET

from apps.dashboard import asked
from apps.dashboard.queries.rollout import rollout_page
from apps.dashboard.queries.rollouts import Wanted, rollout_list
from apps.rollouts.models import Attempt, Rollout
from apps.runs.models import Run
from apps.trajectories.store import object_store

FILTERS = ("purpose", "verdict", "ending", "family", "version")


@login_required
@require_GET
def rollouts(request: HttpRequest, pk: int) -> HttpResponse:
    given = {name: asked.text(request.GET, name) for name in FILTERS}
    wanted = Wanted(**given, before=asked.text(request.GET, "before"))
    try:
        found = rollout_list(request.user, pk, wanted)
    except Run.DoesNotExist:
        raise Http404 from None
    kept = urlencode({name: value for name, value in given.items() if value})
    context = {"section": "runs", "found": found, "run": found.run, "wanted": wanted, "kept": kept, "tab": "rollouts"}
    fragment = request.headers.get("HX-Target") == "rollout-rows"
    return render(request, "dashboard/parts/rollout_rows.html" if fragment else "dashboard/rollouts.html", context)


@login_required
@require_GET
def rollout(request: HttpRequest, pk: int) -> HttpResponse:
    attempt = asked.number(request.GET, "attempt")
    try:
        page = rollout_page(request.user, pk, attempt, object_store())
    except (Rollout.DoesNotExist, Attempt.DoesNotExist):
        raise Http404 from None
    view = "tokens" if request.GET.get("view") == "tokens" else "transcript"
    context = {"section": "runs", "page": page, "view": view, "attempt": attempt}
    return render(request, "dashboard/rollout.html", context)
