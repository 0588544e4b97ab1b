"""What the kernel gives is tried; what it does not give is said with the switch that turns it on."""

import subprocess

import pytest

from sandbox_worker.sandbox.findings import State
from sandbox_worker.sandbox.kernel import control_groups, kernel_findings, user_namespaces
from tests.sandbox_worker.sandbox.users import PYTHON, readable_package

pytestmark = pytest.mark.sandbox

NO_NAMESPACES = """
echo 0 > /proc/sys/user/max_user_namespaces || exit 3
exec "$@"
"""
ASK = """
import sys
from sandbox_worker.sandbox.kernel import control_groups, user_namespaces
row = user_namespaces() if len(sys.argv) == 1 else control_groups(allow_weaker=sys.argv[1] == "weaker")
print(row.state, row.found, row.mend)
"""


def test_this_host_has_all_that_boxes_need() -> None:
    rows = kernel_findings()
    assert [row.name for row in rows] == [
        "kernel", "seccomp filters", "pidfd", "memfd exec", "close_range"
    ]  # fmt: skip
    assert {(row.state, row.mend) for row in (*rows, user_namespaces())} == {(State.OK, "")}


def test_without_user_namespaces_the_switch_is_named() -> None:
    """In a namespace of its own, of which the kernel lets an ordinary user set the switch."""
    apart = ["unshare", "--user", "--map-current-user", "--keep-caps", "/bin/sh", "-c", NO_NAMESPACES, "sh"]
    with readable_package() as package:
        done = subprocess.run(
            [*apart, PYTHON, "-B", "-c", ASK],
            user=65534, group=65534, extra_groups=[], cwd=package, capture_output=True, text=True,
        )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.startswith("missing an ordinary user can make none: No space left on device")
    assert "sysctl user.max_user_namespaces=10000" in done.stdout


def test_control_groups_are_named_with_their_place() -> None:
    row = control_groups(allow_weaker=False)
    assert row.state is State.OK
    for words in ("version ", "cpu", "memory, pids can be limited, below /"):
        assert words in row.found


def test_the_report_of_a_user_without_groups_says_who_and_where() -> None:
    said = {}
    with readable_package() as package:
        for state in ("missing", "weaker"):
            done = subprocess.run(
                [PYTHON, "-B", "-c", ASK, state],
                user=65534, group=65534, extra_groups=[], cwd=package, capture_output=True, text=True, check=True,
            )  # fmt: skip
            said[state] = done.stdout
    assert said["missing"].startswith("missing ")
    assert "(uid 65534) can make none with limits" in said["missing"]
    assert "ASSAY_ALLOW_WEAKER_BOXES=1" in said["missing"]
    assert said["weaker"].startswith("weaker ")
    assert "ASSAY_ALLOW_WEAKER_BOXES" not in said["weaker"], "it is set already"
