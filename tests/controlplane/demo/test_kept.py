from pathlib import Path

import pytest
from pytest_django import Settings

from controlplane.demo.kept import Kept, keep, kept
from controlplane.demo.options import DemoOptions
from tests.apps.factories import make_run

pytestmark = pytest.mark.django_db


def test_what_is_kept_is_there_for_the_next_demo(tmp_path: Path, settings: Settings) -> None:
    settings.ASSAY_DATA = tmp_path
    run, other = make_run(name="demo"), make_run(name="other")
    assert kept(run) == Kept()
    keep(run, DemoOptions(quick=True), 5, None)
    assert kept(run) == Kept(5)
    keep(run, DemoOptions(quick=True), 7, {"learner_steps": 3})
    assert kept(run) == Kept(7, {"learner_steps": 3})
    assert kept(other) == Kept()
    assert [path.name for path in (tmp_path / "demo").iterdir()] == [f"{run.pk}.json"]
    assert '"quick": true' in (tmp_path / "demo" / f"{run.pk}.json").read_text()
