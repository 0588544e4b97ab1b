"""What a run that goes on has beside its records: workers that beat, tries in flight, an alert."""

from datetime import datetime, timedelta

from apps.alerts.models import Alert
from apps.fleet.models import Worker
from apps.rollouts.models import Attempt, Group, Rollout
from apps.runs.models import Run


def alive(run: Run, now: datetime) -> None:
    """Workers that beat, tries in flight, and one alert."""
    counters = {"boxes_started": 9120, "box_failures": 12}
    beat = {"started_at": now - timedelta(hours=1), "heartbeat_at": now, "host": "node-a"}
    Worker.objects.create(
        incarnation="4f1d7a20c0ffee",
        kind="sandbox",
        pid=311,
        capacity=16,
        busy=9,
        counters=counters,
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
