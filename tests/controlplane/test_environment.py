"""Settings read from the environment."""

from pathlib import Path

import pytest

from controlplane import environment
from controlplane.environment import EnvironmentVariableError


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_X", "")
    assert environment.read_text("ASSAY_X", "default") == "default"
    assert environment.read_number("ASSAY_X", 3) == 3
    assert environment.read_flag("ASSAY_X", True) is True
    assert environment.read_list("ASSAY_X", ("a",)) == ["a"]


@pytest.mark.parametrize("value", ["four", "1.5", "-1"])
def test_a_bad_number_is_refused_by_the_name_of_its_variable(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("ASSAY_X", value)
    with pytest.raises(EnvironmentVariableError, match=f"ASSAY_X is '{value}'"):
        environment.read_number("ASSAY_X", 3)


def test_a_bad_flag_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_X", "perhaps")
    with pytest.raises(EnvironmentVariableError, match="1 or 0"):
        environment.read_flag("ASSAY_X", False)


def test_a_list_is_split_at_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_X", " a.example, b.example,")
    assert environment.read_list("ASSAY_X", ()) == ["a.example", "b.example"]


@pytest.mark.parametrize(
    "value",
    [
        "sqlite:///db",
        "postgresql://[bad",
        "postgresql://h:70000/d",
        "postgresql://h:x/d",
        "postgresql://h/d?nonsense=1",
    ],
)
def test_an_address_of_no_database_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("ASSAY_X", value)
    with pytest.raises(EnvironmentVariableError, match="postgresql://user:password@host:5432/database"):
        environment.read_postgres_url("ASSAY_X", "")


@pytest.mark.parametrize(
    "value", ["postgresql:///assay?host=/run/pg&user=assay", "postgres://a:p%40@h:5432/d", "postgresql://a:1,b:2/d"]
)
def test_an_address_of_a_database_is_kept_as_it_is(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("ASSAY_X", value)
    assert environment.read_postgres_url("ASSAY_X", "") == value


def test_a_password_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_X", "postgresql://ada:pa:ss@h:70000/d")
    with pytest.raises(EnvironmentVariableError, match=r"is 'postgresql://ada:\*\*\*@h:70000/d'"):
        environment.read_postgres_url("ASSAY_X", "")


@pytest.mark.parametrize("value", ["ftp://h", "http://", "http://h:70000", "http://h:0", "http://h:x", "http://[bad"])
def test_an_address_of_no_server_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("ASSAY_X", value)
    with pytest.raises(EnvironmentVariableError, match=r"http://127\.0\.0\.1:8100"):
        environment.read_http_url("ASSAY_X", "")


@pytest.mark.parametrize("value", ["http://h", "https://gpu.example:8443", "http://[::1]:1"])
def test_an_address_of_a_server_is_kept_as_it_is(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("ASSAY_X", value)
    assert environment.read_http_url("ASSAY_X", "") == value


def test_a_level_of_the_log_is_one_of_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_X", "debug")
    assert environment.read_log_level("ASSAY_X", "INFO") == "DEBUG"
    monkeypatch.setenv("ASSAY_X", "loud")
    with pytest.raises(EnvironmentVariableError, match="'loud'; it must be one of DEBUG, INFO"):
        environment.read_log_level("ASSAY_X", "INFO")


@pytest.mark.parametrize(
    ("value", "bind"),
    [("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:8000", ("::1", 8000)), (":9", ("0.0.0.0", 9))],
)
def test_a_bind_address_is_a_host_and_a_port(
    monkeypatch: pytest.MonkeyPatch, value: str, bind: tuple[str, int]
) -> None:
    monkeypatch.setenv("ASSAY_X", value)
    assert environment.read_bind("ASSAY_X", "") == bind


@pytest.mark.parametrize("value", ["8000", "host:", "host:http", "host:70000", "host:0"])
def test_a_bind_address_without_a_port_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("ASSAY_X", value)
    with pytest.raises(EnvironmentVariableError, match="host:port"):
        environment.read_bind("ASSAY_X", "")


def test_a_folder_has_one_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.setenv("ASSAY_X", str(tmp_path / "link" / ".." / tmp_path.name))
    assert environment.read_folder("ASSAY_X", Path("/")) == tmp_path


@pytest.mark.parametrize("value", ["{top}/file", "{top}/file/below", "{top}/ring", "~nobody-of-this-name/x"])
def test_a_path_of_no_folder_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "ring").symlink_to(tmp_path / "ring")
    monkeypatch.setenv("ASSAY_X", value.format(top=tmp_path))
    with pytest.raises(EnvironmentVariableError, match="it must be the path of a folder"):
        environment.read_folder("ASSAY_X", Path("/"))


def test_a_folder_need_not_be_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASSAY_X", str(tmp_path / "a" / "b"))
    assert environment.read_folder("ASSAY_X", Path("/")) == tmp_path / "a" / "b"


def test_addresses_that_belong_together_are_set_together(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = {"ASSAY_X": "x", "ASSAY_Y": "y"}
    assert environment.read_together(defaults) == ["x", "y"]
    monkeypatch.setenv("ASSAY_X", "mine")
    with pytest.raises(EnvironmentVariableError, match="ASSAY_Y"):
        environment.read_together(defaults)
    monkeypatch.setenv("ASSAY_Y", "mine too")
    assert environment.read_together(defaults) == ["mine", "mine too"]
