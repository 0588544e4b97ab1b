"""What was found of each host that makes boxes, as the fleet page shows it: one report a host, the worst first."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from apps.dashboard.badges import FINDINGS, HOSTS, Badge, badge
from apps.fleet.models import Worker
from wire.finding import Finding, mends, worst

_ORDER = ("missing", "weaker", "ok")
_TITLES = {"host": "The host"}


@dataclass(frozen=True)
class FindingRow:
    finding: Finding
    badge: Badge


@dataclass(frozen=True)
class Advice:
    mend: str
    names: list[str]
    """Of the rows that ask for it."""


@dataclass(frozen=True)
class Host:
    name: str
    state: str
    badge: Badge
    workers: int
    """Sandbox workers that run on it."""
    examined_at: datetime | None
    counts: list[tuple[int, str]]
    """How many rows are in each state, the worst first."""
    advice: list[Advice]
    groups: list[tuple[str, list[FindingRow]]]


def hosts(now: datetime) -> list[Host]:
    """Those with workers, and those whose workers could not work."""
    workers = Worker.objects.of_kind("sandbox").exclude(findings=[])
    running = workers.present()
    refused = workers.refusing().exclude(host__in=running.values("host"))
    known = [*running.order_by("host", "id"), *refused.order_by("host", "id")]
    by_host = [list(group) for _, group in groupby(sorted(known, key=lambda worker: worker.host), _host_of)]
    return sorted((_host(group) for group in by_host), key=lambda host: (_ORDER.index(host.state), host.name))


def _host_of(worker: Worker) -> str:
    return worker.host


def _host(workers: list[Worker]) -> Host:
    """Of several workers on it, what the one that found most wrong tells; of equals, the newest."""
    reports = [(worst(worker.host_findings), worker) for worker in workers]
    state, told = min(reports, key=lambda report: (_ORDER.index(report[0]), -report[1].pk))
    findings = told.host_findings
    return Host(
        name=told.host,
        state=state,
        badge=badge(HOSTS, state),
        workers=sum(not worker.refused for worker in workers),
        examined_at=told.examined_at,
        counts=_counts(findings),
        advice=[Advice(mend, [row.name for row in rows]) for mend, rows in mends(findings).items()],
        groups=[(_title(about), [_row(row) for row in rows]) for about, rows in groupby(findings, _about)],
    )


def _counts(findings: Iterable[Finding]) -> list[tuple[int, str]]:
    counted = Counter(finding.state for finding in findings)
    return [(counted[state], state) for state in ("missing", "weaker", "ok", "not needed") if state in counted]


def _about(finding: Finding) -> str:
    return finding.about


def _title(about: str) -> str:
    return _TITLES.get(about, f"Boxes of {about}")


def _row(finding: Finding) -> FindingRow:
    return FindingRow(finding, badge(FINDINGS, finding.state))
