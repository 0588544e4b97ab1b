"""What a run that goes on has beside its records: workers that beat, tries in flight, an alert."""

from datetime import datetime, timedelta

from apps.alerts.models import Alert
from apps.fleet.models import Worker
from apps.rollouts.models import Attempt, Group, Rollout
from apps.runs.models import Run


def alive(run: Run, now: datetime) -> None:
    """Workers that beat, tries in flight, and one alert."""
    counters = {
        "boxes_started": 9120, "boxes_failed": 12, "boxes_reaped": 3, "boxes_unstopped": 0,
        "pool_most": 16, "pool_hits": 8801, "pool_misses": 319, "refills_per_second": 11.4,
        "acquire_p50_ms": 0.14, "acquire_p95_ms": 41.2, "starts_waiting": 2, "starts_now": 4,
        "start_wait_p50_ms": 0.01, "start_wait_p95_ms": 12.8,
    }  # fmt: skip
    beat = {"started_at": now - timedelta(hours=1), "heartbeat_at": now, "host": "node-a"}
    Worker.objects.create(
        incarnation="4f1d7a20c0ffee",
        kind="sandbox",
        pid=311,
        capacity=16,
        busy=9,
        counters=counters,
        warm={"/app, 1 cpu, 256 MiB, 64 pids": 9, "/srv/work, 2 cpu, 512 MiB, 128 pids": 3},
        isolation="bubblewrap, user namespace, seccomp",
        **beat,
    )
    Worker.objects.create(incarnation="77aa01c0ffee00", kind="learner", slot="1", pid=320, capacity=1, busy=1, **beat)
    task = run.task_set.versions("train").first()
    if task is not None:
        group = Group.objects.create(run=run, task_version=task, purpose="train", size=8)
        for index in range(8):
            flying = index < 5
            rollout = Rollout.objects.create(
                run=run,
                group=group,
                index=index,
                state="active" if flying else "planned",
                attempt=int(flying),
                fence=int(flying),
                policy_version=run.policy_version if flying else None,
            )
            if flying:
                Attempt.objects.create(
                    run=run, rollout=rollout, number=1, fence=1, claimed_at=now, policy_version=run.policy_version
                )
    Alert.settle(run, "slow grading", "Grading takes 2.1 s at the median, 0.4 s an hour ago.", now)
