"""The control plane's Celery app: what its settings must keep true."""

import pytest

from controlplane.celery import QUEUE, app


@pytest.fixture(autouse=True, scope="module")
def _jobs() -> None:
    app.loader.import_default_modules()


def test_every_beat_entry_names_a_job_that_exists_and_goes_stale() -> None:
    for entry in app.conf.beat_schedule.values():
        assert entry["task"] in app.tasks
        assert entry["options"]["expires"] > 0
        assert entry["options"]["queue"] == QUEUE


def test_a_message_waits_longer_than_any_job_runs_and_comes_back_soon_after_a_kill() -> None:
    options = app.conf.broker_transport_options
    assert options["visibility_timeout"] >= 3600
    assert (options["unacked_restore_interval"], options["unacked_restore_throttle"]) == (1, 1)


def test_no_job_keeps_a_result_and_no_worker_takes_more_than_it_does() -> None:
    assert app.conf.task_ignore_result
    assert app.conf.worker_prefetch_multiplier == 1
    assert app.conf.task_default_queue == QUEUE
    assert not app.conf.worker_enable_remote_control
