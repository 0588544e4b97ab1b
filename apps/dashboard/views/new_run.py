"""Entry points of the new-run form."""

import json
import uuid
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods

from apps.dashboard import asked
from apps.dashboard.new_run import GROUPS, FieldError, Typed, from_preset, parse, preset_named
from apps.dashboard.queries.new_run import Options, estimate, may_launch, options
from apps.runs.config import RunConfig
from apps.runs.launch import KeyReusedError, LaunchError, launch_run
from apps.runs.models import Run
from apps.runs.presets import PRESETS


@login_required
@require_http_methods(["GET", "POST"])
def new_run(request: HttpRequest) -> HttpResponse:
    offered = options(request.user)
    if request.method == "GET":
        return _form(request, from_preset(preset_named(request.GET.get("preset"))), offered, request.GET)
    typed = parse(request.POST)
    try:
        found = _launch(request, typed, offered)
    except KeyReusedError as error:
        given = request.POST.dict() | {"idempotency_key": ""}
        return _form(request, typed, offered, given, started_before=error.run)
    if isinstance(found, Run):
        return redirect("dashboard:run", found.pk)
    return _form(request, found, offered, request.POST)


@login_required
@require_GET
def new_run_estimate(request: HttpRequest) -> HttpResponse:
    typed = parse(request.GET)
    return render(request, "dashboard/parts/estimate.html", _estimate(typed, options(request.user), request.GET))


def _launch(request: HttpRequest, typed: Typed, offered: Options) -> Run | Typed:
    """The run, or what was typed with its errors."""
    errors = list(typed.errors)
    name = request.POST.get("name", "")
    if not asked.keepable(name):
        errors.append(FieldError("name", name, "Use no NUL characters."))
    task_set, policy = (
        offered.set_of(request.POST.get("task_set", "")),
        offered.policy_of(request.POST.get("policy", "")),
    )
    if task_set is None:
        errors.append(FieldError("task_set", request.POST.get("task_set", ""), "Choose one of the task sets."))
    elif not task_set.project.allows(request.user, "operator"):
        errors.append(FieldError("task_set", str(task_set), "Starting a run in this project needs the role operator."))
    if errors or task_set is None or typed.config is None:
        return _with(typed, errors)
    try:
        return launch_run(
            task_set.project,
            request.user if request.user.is_authenticated else None,
            name,
            task_set,
            policy,
            typed.config,
            kind=typed.preset.kind,
            formula=typed.preset.formula,
            idempotency_key=asked.text(request.POST, "idempotency_key")[:120],
            request_digest=_digest(request.POST, typed),
        )
    except LaunchError as error:
        value = "" if error.value is None else str(error.value)
        return _with(typed, [FieldError(error.field, value, error.way_out)])


def _digest(posted: Mapping[str, Any], typed: Typed) -> str:
    """Of everything that a person chose."""
    chosen = {name: posted.get(name, "") for name in ("name", "task_set", "policy")}
    return sha256(json.dumps([typed.preset.name, chosen, dict(typed.values)], sort_keys=True).encode()).hexdigest()


def _with(typed: Typed, errors: list[FieldError]) -> Typed:
    return Typed(typed.preset, typed.values, typed.config, tuple(errors))


def _estimate(typed: Typed, offered: Options, given: Mapping[str, Any]) -> dict[str, Any]:
    option = offered.option_of(given.get("task_set", "")) or offered.preferred
    config: RunConfig | None = typed.config
    counted = estimate(config, option, typed.preset.kind) if config else None
    return {"estimate": counted, "config": config, "option": option, "changed": typed.changed(), "preset": typed.preset}


def _form(
    request: HttpRequest,
    typed: Typed,
    offered: Options,
    given: Mapping[str, Any],
    *,
    started_before: Run | None = None,
) -> HttpResponse:
    context = {
        "section": "runs",
        "presets": PRESETS.values(),
        "groups": GROUPS,
        "typed": typed,
        "errors": {error.field: error for error in typed.errors},
        "options": offered,
        "started_before": started_before,
        "name": given.get("name", f"{typed.preset.name}-{timezone.now():%m%d-%H%M}"),
        "task_set": given.get("task_set") or (str(offered.preferred.task_set.pk) if offered.preferred else ""),
        "policy": given.get("policy") or (str(offered.policies[0].pk) if offered.policies else ""),
        "idempotency_key": given.get("idempotency_key") or uuid.uuid4().hex,
        "may_launch": may_launch(request.user),
        **_estimate(typed, offered, given),
    }
    return render(request, "dashboard/new_run.html", context, status=422 if typed.errors or started_before else 200)
