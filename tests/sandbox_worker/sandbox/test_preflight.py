"""A host that cannot isolate is refused in words that say what to do."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox_worker.sandbox.base import Backend, HostCannotIsolateError
from sandbox_worker.sandbox.bubblewrap import BubblewrapBackend
from sandbox_worker.sandbox.cgroups import CgroupTree
from sandbox_worker.sandbox.findings import State, UnprovedError
from sandbox_worker.sandbox.hierarchies import find_tree, v1_mounts
from sandbox_worker.sandbox.preflight import (
    find_host,
    mend_namespaces,
    mend_of,
    prove,
    require_machine,
    require_program,
    tried,
)
from sandbox_worker.sandbox.probes import LIMITED, STARTS, Probe, Seen
from tests.sandbox_worker.sandbox.boxes import open_box, said, shell
from tests.sandbox_worker.sandbox.users import readable_package

pytestmark = pytest.mark.sandbox

AS_A_USER = """
import sys
sys.path.insert(0, sys.argv[1])
from sandbox_worker.sandbox.base import BoxSpec, HostCannotIsolateError
from sandbox_worker.sandbox.choose import Wanted, open_backend
try:
    open_backend(Wanted(kind="bubblewrap")).close()
except HostCannotIsolateError as error:
    print(error.missing)
backend = open_backend(Wanted(kind="bubblewrap", allow_weaker=True))
print(backend.weaker)
box = backend.start(BoxSpec())
print(box.run(["id", "-u"], timeout=10).output.decode().strip(), box.read("/etc/hosts", limit=1000)[:9].decode())
box.stop()
backend.close()
"""


@pytest.fixture
def package() -> Iterator[Path]:
    with readable_package() as folder:
        yield folder


def test_this_host_isolates(backend: Backend) -> None:
    findings = prove(backend, "bubblewrap")
    assert [row.name for row in findings] == ["starts", *(probe.name for probe in LIMITED)]
    assert {(row.about, row.state, row.mend) for row in findings} == {("bubblewrap", State.OK, "")}
    assert backend.weaker == ""
    assert "own uid for each box" in backend.isolation
    assert "cgroup v" in backend.isolation


def test_a_host_without_control_groups_is_refused() -> None:
    with pytest.raises(HostCannotIsolateError, match="no control group can be made") as raised:
        find_host(allow_weaker=False, find_cgroups=lambda: None)
    assert "ASSAY_ALLOW_WEAKER_BOXES=1" in raised.value.mend


def test_a_host_without_a_cpu_controller_is_refused() -> None:
    with pytest.raises(HostCannotIsolateError, match="no cpu controller"):
        find_host(allow_weaker=False, find_cgroups=tree_without_cpu)
    assert "no cpu controller" in find_host(allow_weaker=True, find_cgroups=tree_without_cpu).weaker


def tree_without_cpu() -> CgroupTree:
    tree = find_tree()
    assert tree is not None
    return replace(tree, by_controller={key: top for key, top in tree.by_controller.items() if key != "cpu"})


def test_weaker_boxes_must_be_allowed_and_say_why() -> None:
    backend = BubblewrapBackend(find_host(allow_weaker=True, find_cgroups=lambda: None))
    try:
        findings = {row.name: row for row in prove(backend, "bubblewrap")}
        assert {name for name, row in findings.items() if row.state is State.WEAKER} == {"memory", "cpu"}
        assert "the memory limit does not take effect" in findings["memory"].found
        assert findings["cpu"].mend
        assert "bounds the memory" in backend.weaker
        with open_box(backend, memory_bytes=128 * 2**20) as box:
            assert said(shell(box, "echo held")) == "held"
            assert b"MemoryError" in box.run(["python3", "-c", "bytearray(1 << 28)"], timeout=10).output
    finally:
        backend.close()


def test_an_ordinary_user_gets_weaker_boxes_only(package: Path) -> None:
    done = subprocess.run(
        ["/usr/bin/python3", "-B", "-c", AS_A_USER, str(package)],
        user=65534, group=65534, extra_groups=[], cwd="/", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    refused, weaker, works = done.stdout.splitlines()
    assert refused == weaker
    assert "bounds the memory" in weaker
    assert works == "1000 127.0.0.1"


@pytest.fixture
def delegated_groups() -> Iterator[list[Path]]:
    """A group of version 1 in each hierarchy that belongs to an ordinary user."""
    folders = [mount / "assay-test-delegated" for mount in v1_mounts().values()]
    if not folders:
        pytest.skip("version 1 is not mounted here")
    for folder in folders:
        folder.mkdir()
        subprocess.run(["chown", "-R", "65534:65534", str(folder)], check=True)
    yield folders
    for folder in folders:
        for inner in sorted(folder.glob("**/"), reverse=True):
            inner.rmdir()


def test_an_ordinary_user_with_delegated_groups_gets_full_boxes(package: Path, delegated_groups: list[Path]) -> None:
    joins = " && ".join(f"echo 0 > {folder}/cgroup.procs" for folder in delegated_groups)
    script = f'{joins} && exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"'
    program = ["/usr/bin/python3", "-B", "-c", AS_A_USER, str(package)]
    done = subprocess.run(
        ["/bin/sh", "-c", script, "sh", *program], cwd="/", capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["", "1000 127.0.0.1"]


def test_a_bubblewrap_that_cannot_is_found(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text(
        "#!/bin/sh\n[ $1 = --version ] && echo bubblewrap 0.9.0 && exit\necho no namespaces here >&2; exit 1\n"
    )
    for folder in (tmp_path, program):
        folder.chmod(0o755)
    host = find_host(allow_weaker=False)
    backend = BubblewrapBackend(replace(host, bubblewrap=replace(host.bubblewrap, path=str(program)), own_uids=False))
    try:
        with pytest.raises(UnprovedError, match=r"a box does not start \(no namespaces here\)") as raised:
            prove(backend, "bubblewrap")
        assert [row.name for row in raised.value.findings] == ["starts"], "nothing else is tried"
    finally:
        backend.close()


def test_a_missing_program_is_named() -> None:
    with pytest.raises(HostCannotIsolateError, match=r"there is no /nowhere/python3. Install it"):
        require_program("/nowhere/python3", "Install it.")


@pytest.mark.parametrize(("system", "machine"), [("darwin", "arm64"), ("linux", "riscv64")])
def test_other_machines_are_refused(system: str, machine: str) -> None:
    with pytest.raises(HostCannotIsolateError, match="need Linux on x86_64 or aarch64"):
        require_machine(system, machine)


def test_a_probe_that_breaks_is_a_row_and_hides_no_other(backend: Backend) -> None:
    broken = Probe("broken", lambda box: box.read("/nowhere", limit=1))  # type: ignore[arg-type, return-value]
    start, row, other = tried(backend, "bubblewrap", (broken, LIMITED[0]))
    assert (start.state, row.state, other.state) == (State.OK, State.MISSING, State.OK)
    assert "broken could not be tried (MissingFileError: /nowhere" in row.found


def test_a_miss_counts_only_where_it_is_confirmed(backend: Backend) -> None:
    """A starved probe must not refuse the host for good."""
    answers = iter([Seen(False, "starved"), Seen(True, "held"), Seen(False, "gone"), Seen(False, "gone again")])
    once = Probe("once", lambda _: next(answers))
    assert [row.state for row in tried(backend, "bubblewrap", (once,))] == [State.OK, State.OK]
    assert tried(backend, "bubblewrap", (once,))[1].found == "gone again"


def test_what_mends_a_probe_is_that_of_its_back_end() -> None:
    for probe in (STARTS, LIMITED[0]):
        assert "Engine" in mend_of("docker", probe)
        assert "Engine" not in mend_of("bubblewrap", probe)


def test_settings_of_the_kernel_are_explained(tmp_path: Path) -> None:
    setting = tmp_path / "max_user_namespaces"
    setting.write_text("0\n")
    assert "sysctl x=1" in mend_namespaces({str(setting): ("0", "sysctl x=1")})
    setting.write_text("9\n")
    assert "container" in mend_namespaces({str(setting): ("0", "sysctl x=1")})
