"""Entry points of what stands around every page."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from apps.dashboard import asked
from apps.dashboard.queries import frame


@login_required
@require_GET
def search(request: HttpRequest) -> HttpResponse:
    groups = frame.search(request.user, asked.text(request.GET, "q"))
    return render(request, "dashboard/search.html", {"groups": groups})
