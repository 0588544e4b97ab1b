"""Entry points of the fleet and policy pages."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from apps.dashboard.queries import fleet, policies


@login_required
@require_GET
def fleet_page(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    return render(
        request, "dashboard/fleet.html", {"section": "fleet", "fleet": fleet.fleet(request.user, now), "now": now}
    )


@login_required
@require_GET
def policies_page(request: HttpRequest) -> HttpResponse:
    rows = policies.policies(request.user)
    return render(request, "dashboard/policies.html", {"section": "policies", "rows": rows})
