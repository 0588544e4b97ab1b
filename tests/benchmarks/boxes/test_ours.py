from collections.abc import Callable

import pytest

from benchmarks.boxes.contract import Arm
from benchmarks.peers.ours import Cold, Warm, wanted
from sandbox_worker.sandbox.base import Backend, BoxDeadError
from sandbox_worker.sandbox.choose import open_backend

pytestmark = pytest.mark.sandbox


@pytest.mark.parametrize("make", [Cold, Warm])
def test_a_box_of_ours_works_until_it_is_stopped(make: Callable[[Backend], Arm]) -> None:
    arm = make(open_backend(wanted("bubblewrap")))
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
