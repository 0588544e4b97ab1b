"""Keep the endpoint serving what rollouts need: the newest version, and those that evaluations are pinned to.

Level-triggered: after a restart of the policy server the next pass finds it empty and loads what is missing.
"""

import logging
from collections.abc import Iterable
from datetime import datetime

import httpx

from apps.checkpoints import states
from apps.checkpoints.models import Checkpoint
from apps.fleet.models import Endpoint
from apps.lifecycle.announce import announce
from apps.runs.models import Run

log = logging.getLogger(__name__)

CHECK_SECONDS = 2.0
LOAD_SECONDS = 60.0


def publish_versions(run: Run, wanted: Iterable[int], *, now: datetime) -> set[int]:
    """Make the endpoint serve the wanted versions; those that it serves now."""
    if run.endpoint is None:
        return set()
    served = served_names(run.endpoint, now)
    if served is None:
        return set()
    live = {version for version in set(wanted) if run.served_name(version) in served}
    for version in sorted(set(wanted) - live):
        checkpoint = Checkpoint.objects.of(run).stored().filter(version=version).first()
        if checkpoint is not None and _load(run, run.endpoint, checkpoint):
            live.add(version)
    return live


def served_names(endpoint: Endpoint, now: datetime) -> set[str] | None:
    """What the endpoint serves; None while it does not answer."""
    try:
        answer = httpx.get(f"{endpoint.url}/v1/models", timeout=CHECK_SECONDS)
        answer.raise_for_status()
        names = sorted(str(model["id"]) for model in answer.json()["data"])
    except (httpx.HTTPError, ValueError, KeyError) as error:
        endpoint.note(healthy=False, error=f"{type(error).__name__}: {error}", served=[], now=now)
        return None
    endpoint.note(healthy=True, error="", served=names, now=now)
    return set(names)


def _load(run: Run, endpoint: Endpoint, checkpoint: Checkpoint) -> bool:
    if checkpoint.state == states.WRITTEN:
        checkpoint.move(states.PUBLISHING)
    body = {"name": run.served_name(checkpoint.version), "prefix": checkpoint.prefix, "digest": checkpoint.digest}
    try:
        answer = httpx.post(f"{endpoint.url}/v1/policies", json=body, timeout=LOAD_SECONDS)
    except httpx.HTTPError as error:
        log.warning("version %d of run %d not published: %s", checkpoint.version, run.pk, error)
        return False
    if answer.status_code >= 400:
        announce(run.stream(), "checkpoint.refused", answer.text[:500], {"version": checkpoint.version})
        log.error("version %d of run %d refused: %s", checkpoint.version, run.pk, answer.text[:500])
        return False
    if checkpoint.state == states.PUBLISHING:
        checkpoint.move(states.LIVE)
        checkpoint.note_live()
        announce(
            run.stream(), "checkpoint.live", f"Version {checkpoint.version} is served", {"version": checkpoint.version}
        )
    return True
