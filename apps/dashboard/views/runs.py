"""Entry points of the list of runs."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_GET

from apps.dashboard import asked
from apps.dashboard.queries.new_run import may_launch
from apps.dashboard.queries.runs import Wanted, run_list


@login_required
@require_GET
def runs(request: HttpRequest) -> HttpResponse:
    wanted = Wanted(*(asked.text(request.GET, name) for name in ("q", "state", "before")))
    kept = urlencode({name: value for name, value in (("q", wanted.text), ("state", wanted.state)) if value})
    found = run_list(request.user, wanted)
    context = {"section": "runs", "found": found, "wanted": wanted, "kept": kept, "now": timezone.now()}
    if request.headers.get("HX-Target") == "run-rows":
        return render(request, "dashboard/parts/run_rows.html", {**context, "fragment": True})
    return render(request, "dashboard/runs.html", {**context, "may_launch": may_launch(request.user)})
