import pytest
from django.db import IntegrityError

from apps.fleet.jobs import heartbeat
from apps.fleet.models import GONE_AFTER, SUSPECT_AFTER, Worker
from tests.apps.factories import START, at, beat, make_heartbeat, make_worker

pytestmark = pytest.mark.django_db


def test_a_heartbeat_makes_a_worker_and_the_next_renews_it() -> None:
    heartbeat(make_heartbeat("a", holding=["1:1"]))
    heartbeat(make_heartbeat("a", now=at(10)))
    assert Worker.objects.get().holding == []


def test_a_worker_is_alive_then_suspect_then_gone() -> None:
    worker = make_worker()
    late = START + SUSPECT_AFTER
    assert (worker.state(at(29)), worker.state(late)) == ("alive", "suspect")
    assert not Worker.objects.ready(late).exists()
    assert Worker.objects.declare_gone(START + GONE_AFTER) == 1
    assert Worker.objects.get().state(late) == "gone"


def test_a_late_heartbeat_changes_nothing() -> None:
    beat("a", now=at(20), sent_at=at(20).timestamp(), holding=["2:1"])
    beat("a", now=at(21), sent_at=at(10).timestamp(), holding=["1:1"])
    assert Worker.objects.get().holding == ["2:1"]


def test_a_heartbeat_that_waited_is_believed_only_up_to_when_it_was_sent() -> None:
    worker = beat("a", now=at(60), sent_at=at(20).timestamp())
    assert (worker.heartbeat_at, worker.spoke_at) == (at(60), at(20))


def test_a_newer_incarnation_in_a_slot_proves_the_older_dead() -> None:
    beat("old", slot="0")
    beat("other", slot="1")
    beat("new", slot="0", started_at=at(5).timestamp(), now=at(5))
    gone = Worker.objects.get(incarnation="old")
    assert (gone.gone_at, gone.gone_reason) == (at(5), "replaced by a newer process")
    assert set(Worker.objects.present().values_list("incarnation", flat=True)) == {"new", "other"}


def test_the_replaced_does_not_come_back_by_a_heartbeat_that_was_late() -> None:
    beat("old", slot="0")
    beat("new", slot="0", started_at=at(5).timestamp(), now=at(5))
    beat("old", slot="0", now=at(6))
    assert Worker.objects.present().get().incarnation == "new"


def test_the_older_is_dead_also_where_it_is_heard_of_last() -> None:
    beat("new", slot="0", started_at=at(5).timestamp(), now=at(5))
    beat("old", slot="0", now=at(6), sent_at=at(1).timestamp())
    assert Worker.objects.present().get().incarnation == "new"


def test_who_said_goodbye_is_gone_for_good() -> None:
    beat("a")
    beat("a", now=at(5), leaving=True)
    beat("a", now=at(6))
    assert Worker.objects.get().gone_reason == "stopped"


def test_who_was_only_silent_comes_back() -> None:
    beat("a")
    Worker.objects.declare_gone(START + GONE_AFTER)
    beat("a", now=at(130))
    assert Worker.objects.present().exists()


def test_a_refusal_stands_until_its_host_is_heard_of_again() -> None:
    beat("old", slot="0")
    beat("new", slot="0", started_at=at(5).timestamp(), now=at(5), leaving=True, capacity=0, refused="No groups.")
    refused = Worker.objects.refusing().get()
    assert (refused.state(at(6)), refused.gone_reason) == ("refused", "cannot work on this host")
    assert not Worker.objects.ready(at(6)).exists()
    beat("elsewhere", host="other", now=at(6))
    assert Worker.objects.refusing().exists()
    beat("mended", slot="0", started_at=at(7).timestamp(), now=at(7))
    assert not Worker.objects.refusing().exists()


def test_what_a_worker_holds_beyond_its_places_waits() -> None:
    worker = make_worker(capacity=32, busy=53)
    assert (worker.running, worker.waiting) == (32, 21)


def test_there_are_two_kinds_of_workers() -> None:
    with pytest.raises(IntegrityError):
        Worker.objects.create(
            incarnation="a", kind="cook", host="h", pid=1, started_at=START, heartbeat_at=START, sent_at=START
        )


ROWS = [{"about": "host", "name": "kernel", "state": "ok", "found": "Linux 6", "mend": ""}]


def test_what_was_found_of_a_host_stays_until_it_is_told_anew() -> None:
    heartbeat(make_heartbeat("a", findings=ROWS, examined_at=at(-5).timestamp()))
    heartbeat(make_heartbeat("a", now=at(10)))
    worker = Worker.objects.get()
    assert (worker.findings, worker.examined_at) == (ROWS, at(-5))
    heartbeat(
        make_heartbeat("a", now=at(20), findings=[{**ROWS[0], "state": "missing"}], examined_at=at(15).timestamp())
    )
    worker = Worker.objects.get()
    assert ([row.state for row in worker.host_findings], worker.examined_at) == (["missing"], at(15))


def test_rows_of_a_heartbeat_that_came_too_late_change_nothing() -> None:
    beat("a", now=at(20), sent_at=at(20).timestamp())
    beat("a", now=at(21), sent_at=at(10).timestamp(), findings=ROWS, examined_at=at(1).timestamp())
    assert Worker.objects.get().findings == []


def test_a_refused_worker_keeps_what_was_found() -> None:
    beat("a", leaving=True, capacity=0, refused="No groups.", findings=ROWS, examined_at=at(0).timestamp())
    assert Worker.objects.refusing().get().findings == ROWS


def test_the_newest_heartbeat_says_which_boxes_wait_and_what_keeps_them_from_it() -> None:
    beat("a", warm={"/app": 3}, trouble="no image")
    worker = beat("a", now=at(10), warm={"/app": 4})
    assert (worker.warm, worker.trouble) == ({"/app": 4}, "")
