"""Lines of processes, in files and on the console."""

import io
import os
from pathlib import Path

from controlplane import output
from controlplane.output import Console, Log


def write_through(log: Log, data: bytes) -> None:
    reading, writing = os.pipe()
    log.follow(os.fdopen(reading, "rb"))
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(data)
    log.tail()


def test_each_line_is_shown_with_its_process_and_kept_as_it_was(tmp_path: Path) -> None:
    shown = io.StringIO()
    console = Console(shown)
    log = Log("web", tmp_path, console)
    write_through(log, b"one\ntw\xff\nlast without an end")
    log.close()
    console.close()
    assert shown.getvalue() == "web      | one\nweb      | tw\ufffd\nweb      | last without an end\n"
    assert (tmp_path / "web.log").read_bytes() == b"one\ntw\xff\nlast without an end"


def test_a_file_that_grew_too_large_makes_room_and_keeps_one_predecessor(tmp_path: Path) -> None:
    log = Log("web", tmp_path, Console(None))
    line = b"x" * 65535 + b"\n"
    write_through(log, line * (2 * output.FILE_BYTES // 65536 + 10))
    log.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["web.log", "web.log.1"]
    assert all(path.stat().st_size <= output.FILE_BYTES + 65536 for path in tmp_path.iterdir())


def test_the_last_lines_are_remembered_without_a_file() -> None:
    log = Log("web", None, Console(None))
    write_through(log, b"".join(b"%d\n" % number for number in range(100)))
    assert log.tail().splitlines() == [str(number) for number in range(60, 100)]
    log.close()


def test_a_closed_console_stops_nobody(tmp_path: Path) -> None:
    shown = io.StringIO()
    console = Console(shown)
    shown.close()
    log = Log("web", tmp_path, console)
    write_through(log, b"one\n" * 10000)
    console.close()
    log.close()
    assert (tmp_path / "web.log").stat().st_size == 40000
