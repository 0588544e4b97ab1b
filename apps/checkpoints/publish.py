"""Keep the endpoint serving what rollouts need: the newest version, and those that evaluations are pinned to.

Level-triggered: after a restart of the policy server the next pass finds it empty and loads what is missing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cache

import httpx

from apps.checkpoints import states
from apps.checkpoints.models import Checkpoint
from apps.fleet.models import Endpoint
from apps.lifecycle.announce import announce
from apps.runs.models import Run

CHECK_SECONDS = 2.0
LOAD_SECONDS = 60.0


@dataclass(frozen=True)
class Published:
    """What an endpoint serves of the wanted versions, and why not the others."""

    versions: frozenset[int]
    problem: str = ""


@cache
def _client() -> httpx.Client:
    """One for the process: a new one each time would read every certificate of the host again, for some 20 ms."""
    return httpx.Client(timeout=CHECK_SECONDS)


def publish_versions(run: Run, wanted: Iterable[int], *, now: datetime) -> Published:
    """Make the endpoint serve the wanted versions. It may take long: no transaction may be open."""
    if run.endpoint is None:
        return Published(frozenset())
    served = served_names(run.endpoint, now)
    if served is None:
        return Published(frozenset())
    live = {version for version in set(wanted) if run.served_name(version) in served}
    problems = []
    for version in sorted(set(wanted) - live):
        checkpoint = Checkpoint.objects.of(run).stored().filter(version=version).first()
        if checkpoint is None:
            continue
        problem = _load(run, run.endpoint, checkpoint)
        if problem:
            problems.append(f"Version {version} is not served: {problem}")
        else:
            live.add(version)
    return Published(frozenset(live), "; ".join(problems))


def served_names(endpoint: Endpoint, now: datetime) -> set[str] | None:
    """What the endpoint serves; None while it does not answer."""
    try:
        answer = _client().get(f"{endpoint.url}/v1/models")
        answer.raise_for_status()
        names = sorted(str(model["id"]) for model in answer.json()["data"])
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        endpoint.note(healthy=False, error=f"{type(error).__name__}: {error}", served=[], now=now)
        return None
    endpoint.note(healthy=True, error="", served=names, now=now)
    return set(names)


def _load(run: Run, endpoint: Endpoint, checkpoint: Checkpoint) -> str:
    """Why it was not loaded; empty if it was."""
    if checkpoint.state == states.WRITTEN:
        checkpoint.move(states.PUBLISHING)
    body = {"name": run.served_name(checkpoint.version), "prefix": checkpoint.prefix, "digest": checkpoint.digest}
    try:
        answer = _client().post(f"{endpoint.url}/v1/policies", json=body, timeout=LOAD_SECONDS)
    except httpx.HTTPError as error:
        return f"{type(error).__name__}: {error}"
    if answer.status_code >= 400:
        return answer.text[:500] or f"HTTP {answer.status_code}"
    if checkpoint.state == states.PUBLISHING and checkpoint.move(states.LIVE):
        checkpoint.note_live()
        announce(
            run.stream(), "checkpoint.live", f"Version {checkpoint.version} is served", {"version": checkpoint.version}
        )
    return ""
