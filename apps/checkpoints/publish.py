"""Keep the endpoint serving what rollouts need: the newest version, and those that evaluations are pinned to.

Level-triggered: after a restart of the policy server the next pass finds it empty and loads what is missing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
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
PASSING = frozenset({408, 409, 429})
"""Refusals that may be over the next time: too late, in the way of another, too many."""


@dataclass(frozen=True)
class Published:
    """What an endpoint serves of the wanted versions, and why not the others."""

    versions: frozenset[int]
    problem: str = ""
    refused: dict[int, str] = field(default_factory=dict)
    """What was said of versions that asking again cannot help."""


@dataclass(frozen=True)
class Unloaded:
    """Why a version was not loaded."""

    why: str
    for_good: bool


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
    for unsaid in Checkpoint.objects.of(run).on_the_way().filter(version__in=live):
        _go_live(run, unsaid)  # who had it loaded died before it said so
    problems, refused = [], {}
    for version in sorted(set(wanted) - live):
        checkpoint = Checkpoint.objects.of(run).stored().filter(version=version).first()
        if checkpoint is None:
            continue
        unloaded = _load(run, run.endpoint, checkpoint)
        if unloaded is None:
            live.add(version)
            continue
        problems.append(f"Version {version} is not served: {unloaded.why}")
        if unloaded.for_good:
            refused[version] = unloaded.why
    if names := {run.served_name(version) for version in live} - served:
        run.endpoint.note(healthy=True, error="", served=sorted(served | names), now=now)
    return Published(frozenset(live), "; ".join(problems), refused)


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


def _load(run: Run, endpoint: Endpoint, checkpoint: Checkpoint) -> Unloaded | None:
    """None if it was loaded."""
    if checkpoint.state == states.WRITTEN:
        checkpoint.move(states.PUBLISHING)
    body = {"name": run.served_name(checkpoint.version), "prefix": checkpoint.prefix, "digest": checkpoint.digest}
    try:
        answer = _client().post(f"{endpoint.url}/v1/policies", json=body, timeout=LOAD_SECONDS)
    except httpx.HTTPError as error:
        return Unloaded(f"{type(error).__name__}: {error}", for_good=False)
    if answer.status_code >= 400:
        return Unloaded(_said(answer), for_good=answer.status_code < 500 and answer.status_code not in PASSING)
    _go_live(run, checkpoint)
    return None


def _go_live(run: Run, checkpoint: Checkpoint) -> None:
    if checkpoint.state == states.WRITTEN:
        checkpoint.move(states.PUBLISHING)
    if checkpoint.state == states.PUBLISHING and checkpoint.move(states.LIVE):
        checkpoint.note_live()
        announce(
            run.stream(), "checkpoint.live", f"Version {checkpoint.version} is served", {"version": checkpoint.version}
        )


def _said(answer: httpx.Response) -> str:
    """The words of an OpenAI-style error, or the answer as it came."""
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:500] or f"HTTP {answer.status_code}"
