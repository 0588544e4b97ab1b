"""Entry points of the task pages."""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from apps.dashboard import asked
from apps.dashboard.queries import tasks
from apps.tasks.models import Task, TaskVersion
from apps.trajectories.store import object_store


@login_required
@require_GET
def tasks_page(request: HttpRequest) -> HttpResponse:
    wanted = tasks.Wanted(
        text=asked.text(request.GET, "q"),
        state=asked.text(request.GET, "state"),
        family=asked.text(request.GET, "family"),
        task_set=asked.number(request.GET, "set") or 0,
        after=asked.text(request.GET, "after"),
        after_id=asked.number(request.GET, "after_id") or 0,
    )
    found = tasks.task_list(request.user, wanted)
    context = {"section": "tasks", "found": found, "wanted": wanted}
    if request.headers.get("HX-Target") == "task-rows":
        return render(request, "dashboard/parts/task_rows.html", context)
    return render(request, "dashboard/tasks.html", {**context, "sets": tasks.task_sets(request.user)})


@login_required
@require_GET
def task_page(request: HttpRequest, pk: int) -> HttpResponse:
    try:
        page = tasks.task_page(request.user, pk, asked.number(request.GET, "version"), object_store())
    except (Task.DoesNotExist, TaskVersion.DoesNotExist):
        raise Http404 from None
    return render(request, "dashboard/task.html", {"section": "tasks", "page": page})
