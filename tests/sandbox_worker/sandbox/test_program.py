"""The supervisor's program: built from its source, static, and each way of not having it said."""

import struct
from pathlib import Path

import pytest

from sandbox_worker.sandbox import program
from sandbox_worker.sandbox.base import HostCannotIsolateError
from sandbox_worker.sandbox.seccomp import MACHINES

INTERPRETER = 3
BUILT = b"\x7fELF as the compiler made it"


def segment_kinds(content: bytes) -> list[int]:
    """Of a 64-bit ELF file."""
    assert content[:5] == b"\x7fELF\x02"
    start, size, count = *struct.unpack_from("<Q", content, 32), *struct.unpack_from("<HH", content, 54)
    return [struct.unpack_from("<I", content, start + number * size)[0] for number in range(count)]


def test_it_needs_nothing_of_the_box() -> None:
    assert INTERPRETER not in segment_kinds(program.supervisor_program())


def test_it_is_built_once_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    builds = iter([BUILT])
    monkeypatch.setattr(program, "BUILT", tmp_path / "built")
    monkeypatch.setattr(program, "compiled", lambda: next(builds))
    assert program.supervisor_program() == program.supervisor_program() == BUILT
    assert [path.name for path in (tmp_path / "built").iterdir()] == [program.program_path().name]


def test_what_a_power_loss_left_is_built_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(program, "BUILT", tmp_path)
    monkeypatch.setattr(program, "compiled", lambda: BUILT)
    program.program_path().write_bytes(b"")
    assert program.supervisor_program() == BUILT
    assert program.program_path().read_bytes() == BUILT


def test_another_source_is_another_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text("int main(void) { return 7; }\n")
    monkeypatch.setattr(program, "SOURCE", tmp_path)
    first = program.program_path()
    (tmp_path / "box.h").write_text("// changed\n")
    assert program.program_path() != first


def test_a_folder_that_cannot_be_written_costs_only_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(program, "BUILT", tmp_path / "file" / "built")
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(program, "compiled", lambda: BUILT)
    assert program.supervisor_program() == BUILT


def test_what_the_compiler_says_is_passed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text("int main(void) { return nothing; }\n")
    monkeypatch.setattr(program, "SOURCE", tmp_path)
    with pytest.raises(HostCannotIsolateError, match="undeclared identifier 'nothing'"):
        program.compiled()


@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [("COMPILER", "no_such_compiler", "No module named no_such_compiler"), ("TARGETS", {}, "no supervisor for")],
)
def test_a_host_without_means_is_told_what_to_do(
    monkeypatch: pytest.MonkeyPatch, attribute: str, value: object, words: str
) -> None:
    monkeypatch.setattr(program, attribute, value)
    with pytest.raises(HostCannotIsolateError, match=words) as raised:
        program.compiled()
    assert raised.value.mend


def test_every_machine_with_a_filter_has_a_program() -> None:
    assert program.TARGETS.keys() == MACHINES.keys()
