import pytest

from benchmarks.peers.ours import WAITING, Ours, boxes_of
from sandbox_worker.sandbox.base import BoxDeadError
from sandbox_worker.sandbox.choose import open_backend

pytestmark = pytest.mark.sandbox


@pytest.mark.parametrize("waiting", WAITING.values(), ids=WAITING)
def test_a_box_of_ours_works_until_it_is_stopped(waiting: int) -> None:
    arm = Ours(open_backend(boxes_of("bubblewrap")), waiting=waiting)
    try:
        arm.settle(2)
        box = arm.start()
        assert box.run("printf 12345", seconds=30).output_bytes == 5
        box.open_session()
        assert box.run_true_in_session().exit_code == 0
        box.stop()
        with pytest.raises(BoxDeadError):
            box.run_true()
    finally:
        arm.close()
