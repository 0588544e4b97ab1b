"""The control plane's Celery app: the jobs of its apps, and the beat that makes them look again.

The broker may lose, double or delay any message; the settings keep long work from being sent twice.
"""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

from django.conf import settings

QUEUE = "control"

app = Celery("controlplane")
app.conf.update(
    broker_url=settings.ASSAY_BROKER_URL,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,  # a broker may be away for long; after a hundred tries the process would end
    broker_transport_options={
        "visibility_timeout": 3600,  # below the run time of a job, it would run several times at once
        "unacked_restore_interval": 1,  # with kombu's own two, a killed worker's messages wait for 100 s
        "unacked_restore_throttle": 1,
    },
    task_default_queue=QUEUE,
    task_ignore_result=True,
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,
    worker_send_task_events=False,
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,
    timezone="UTC",
    beat_schedule={
        # What was not taken before the next tick is not worth taking: each pass looks at everything.
        "tick": {"task": "pipeline.tick", "schedule": 1.0, "options": {"expires": 5, "queue": QUEUE}},
        "check ledgers": {
            "task": "pipeline.check_ledgers",
            "schedule": 60.0,
            "options": {"expires": 60, "queue": QUEUE},
        },
        "sweep ended": {
            "task": "pipeline.sweep_ended",
            "schedule": 60.0,
            "options": {"expires": 60, "queue": QUEUE},
        },
    },
)
app.autodiscover_tasks(related_name="jobs")
