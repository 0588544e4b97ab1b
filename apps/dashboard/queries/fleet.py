"""Workers and policy endpoints, as the fleet page shows them."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.auth.models import AnonymousUser

from apps.accounts.models import User
from apps.dashboard.asked import LONGEST_NUMBER
from apps.dashboard.badges import WORKERS, Badge, badge
from apps.dashboard.queries.boxes import BoxesRow, boxes
from apps.dashboard.queries.hosts import Host, hosts
from apps.fleet.models import Endpoint, Worker
from apps.rollouts.models import Rollout
from apps.rollouts.states import PLANNED
from apps.runs.models import Run

GONE_SHOWN = timedelta(hours=24)
MOST_GONE = 20
MOST_REFUSALS = 5


@dataclass(frozen=True)
class WorkerRow:
    worker: Worker
    badge: Badge
    state: str
    boxes_started: float | None
    box_failures: float | None


@dataclass(frozen=True)
class Pool:
    """Workers of one kind together."""

    name: str
    running: int
    capacity: int
    waiting: int
    """Held by the workers, for a place to be free."""
    planned: int | None
    """Not sent to a worker yet; None where there is no such number."""
    boxes_started: float
    box_failures: float

    @property
    def share(self) -> float:
        return self.running / self.capacity if self.capacity else 0.0

    @property
    def failure_share(self) -> float | None:
        return self.box_failures / self.boxes_started if self.boxes_started else None


@dataclass(frozen=True)
class EndpointRow:
    endpoint: Endpoint
    served: list[str]
    hidden: int
    """Names of runs that the user may not see."""


@dataclass(frozen=True)
class Fleet:
    present: list[WorkerRow]
    gone: list[WorkerRow]
    pools: list[Pool]
    endpoints: list[EndpointRow]
    refusals: list[Worker]
    """Why no sandbox worker runs, host by host; empty while one does."""
    boxes: list[BoxesRow]
    hosts: list[Host]

    @property
    def learners(self) -> int:
        """Those that answer."""
        return sum(row.state == "alive" and row.worker.kind == "learner" for row in self.present)

    @property
    def answering(self) -> int:
        return sum(row.state == "alive" for row in self.present)


def fleet(user: User | AnonymousUser, now: datetime) -> Fleet:
    present = [_row(worker, now) for worker in Worker.objects.present().order_by("kind", "host", "started_at", "id")]
    gone = Worker.objects.filter(gone_at__gt=now - GONE_SHOWN).order_by("-gone_at", "-id")[:MOST_GONE]
    return Fleet(
        present=present,
        gone=[_row(worker, now) for worker in gone],
        pools=_pools(present),
        endpoints=_endpoints(user),
        refusals=_refusals(now),
        boxes=boxes(row.worker for row in present if row.worker.kind == "sandbox"),
        hosts=hosts(now),
    )


def _refusals(now: datetime) -> list[Worker]:
    workers = Worker.objects.of_kind("sandbox")
    if workers.ready(now).exists():
        return []
    return list(workers.refusing().order_by("-sent_at", "-id")[:MOST_REFUSALS])


def _endpoints(user: User | AnonymousUser) -> list[EndpointRow]:
    rows = list(Endpoint.objects.order_by("name"))
    named = {run for endpoint in rows for name in endpoint.served if (run := _run_of(name)) is not None}
    visible = set(Run.objects.visible_to(user).filter(pk__in=named).values_list("pk", flat=True))
    return [_endpoint(row, hidden=named - visible) for row in rows]


def _endpoint(endpoint: Endpoint, hidden: set[int]) -> EndpointRow:
    shown = [name for name in endpoint.served if _run_of(name) not in hidden]
    return EndpointRow(endpoint, shown, len(endpoint.served) - len(shown))


def _run_of(name: str) -> int | None:
    """Of a served name `<run>@<version>`."""
    run, at, _ = name.partition("@")
    return int(run) if at and run.isdecimal() and len(run) <= LONGEST_NUMBER else None


def _row(worker: Worker, now: datetime) -> WorkerRow:
    state = worker.state(now)
    look = badge(WORKERS, state)
    if state == "gone" and worker.gone_reason == "no heartbeat":
        look = Badge("Lost", "broken", "broken")
    counters = worker.counters
    return WorkerRow(
        worker=worker,
        badge=look,
        state=state,
        boxes_started=counters.get("boxes_started"),
        box_failures=counters.get("box_failures", counters.get("boxes_failed")),
    )


def _pools(rows: list[WorkerRow]) -> list[Pool]:
    planned = {"sandbox": Rollout.objects.filter(state=PLANNED, run__state__in=("running", "draining")).count()}
    names = {"sandbox": "sandboxes", "learner": "learners"}
    return [
        Pool(
            name=names[kind],
            running=sum(row.worker.running for row in of_kind),
            capacity=sum(row.worker.capacity for row in of_kind),
            waiting=sum(row.worker.waiting for row in of_kind),
            planned=planned.get(kind),
            boxes_started=sum(row.boxes_started or 0 for row in of_kind),
            box_failures=sum(row.box_failures or 0 for row in of_kind),
        )
        for kind in names
        if (of_kind := [row for row in rows if row.worker.kind == kind])
    ]
