import io

import pytest
from rich.console import Console

from controlplane.demo.supplies import DemoError
from controlplane.demo.watch import RunWatch, bars
from tests.apps.factories import running
from tests.controlplane.demo.runs import finished_demo
from wire.store import FolderStore

pytestmark = pytest.mark.django_db


def test_a_finished_run_is_shown_whole_and_not_waited_for(store: FolderStore) -> None:
    run = finished_demo(store)
    progress = bars(Console(file=io.StringIO(), width=200))
    RunWatch(run, progress).until_ended(lambda: None)
    shown: dict[str, tuple[object, ...]] = {
        task.description: (task.completed, task.total, task.fields["note"]) for task in progress.tasks
    }
    assert shown["held-out, model as it comes (version 0)"] == (4, 4, "0.0 %")
    assert shown["held-out, after warm start (version 2)"] == (4, 4, "50.0 %")
    assert shown["held-out, after GRPO (version 5)"] == (4, 4, "100.0 %")
    assert shown["warm start (SFT)"][:2] == (2, 2)
    assert shown["GRPO"][:2] == (3, 3)


def test_a_check_that_fails_ends_the_watch() -> None:
    def refuse() -> None:
        raise DemoError("no boxes here")

    with bars(Console(file=io.StringIO())) as progress, pytest.raises(DemoError, match="no boxes here"):
        RunWatch(running(), progress).until_ended(refuse)
