import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.boxes.child import ROOT


@pytest.mark.sandbox
def test_a_quick_run_measures_real_boxes_and_decides_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.sandboxes", "--quick", "--results", str(tmp_path)]
    done = subprocess.run([*command, "--arm", "ours bubblewrap"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "sandboxes.json").read_text())
    assert json.loads(done.stdout) == result
    assert [row["metric"] for row in result["measurements"] if row["value"] is None or row["failures"]] == []
    assert {target["met"] for target in result["targets"]} == {None}
    told = {(row["metric"], row["arm"]): row["value"] for row in result["measurements"]}
    for arm in ("ours bubblewrap, cold", "ours bubblewrap, warm"):
        assert told["survivors", arm] == 0
        assert told["count told of a flood", arm] == 2**30
        assert told["left of a killed process: control groups", arm] == 0


def test_an_arm_that_is_not_there_is_refused_with_those_that_are() -> None:
    command = [sys.executable, "-m", "benchmarks.sandboxes", "--arm", "theirs"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "theirs" in done.stderr
    assert "ours bubblewrap, cold" in done.stderr
