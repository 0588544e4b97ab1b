"""The embedded servers, really run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from controlplane.embedded import reach
from controlplane.embedded.account import Account, postgres_account
from controlplane.embedded.folders import EmbeddedError, database_url, postgres_sockets, run_folder, valkey_socket
from controlplane.embedded.postgres import THROWAWAY_SETTINGS, Postgres
from controlplane.embedded.valkey import valkey_process
from controlplane.supervisor import Supervisor
from tests.controlplane.test_supervisor import is_alive, until
from tests.servers import remove_data_folder

pytestmark = pytest.mark.process


def database(data: Path) -> Supervisor:
    return Supervisor([Postgres(data, THROWAWAY_SETTINGS).process()], logs=data / "logs")


def execute(data: Path, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(database_url(data), autocommit=True) as connection:
        cursor = connection.execute(query.encode())
        return cursor.fetchall() if cursor.description else []


def test_the_database_listens_on_its_socket_alone(data_folder: Path) -> None:
    with database(data_folder) as supervisor:
        pid = supervisor.pid_of("database")
        assert execute(data_folder, "SHOW listen_addresses") == [("",)]
        assert psutil.Process(pid).net_connections("inet") == []
        assert psutil.Process(pid).uids().real == postgres_account().uid


def test_what_was_committed_outlives_a_killed_server(data_folder: Path) -> None:
    with database(data_folder) as supervisor:
        execute(data_folder, "CREATE TABLE kept (id int)")
        execute(data_folder, "INSERT INTO kept VALUES (1)")
        pid = supervisor.pid_of("database")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        until(lambda: supervisor.restarts_of("database") == 1 and supervisor.pid_of("database"))
        until(lambda: Postgres(data_folder).answers())
        assert execute(data_folder, "SELECT id FROM kept") == [(1,)]


RUN = """
import sys, time
from pathlib import Path
from tests.controlplane.test_embedded import database
supervisor = database(Path(sys.argv[1]))
supervisor.start()
print(supervisor.pid_of("database"), flush=True)
time.sleep(600)
"""


def run_database(data: Path) -> tuple[subprocess.Popen[str], int]:
    program = subprocess.Popen([sys.executable, "-c", RUN, str(data)], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    pid = int(program.stdout.readline())
    program.stdout.close()
    return program, pid


def test_a_second_server_on_one_data_folder_is_refused_with_the_pid_of_the_first(data_folder: Path) -> None:
    program, _ = run_database(data_folder)
    with pytest.raises(EmbeddedError, match=f"process {program.pid}"):
        database(data_folder).start()
    assert execute(data_folder, "SELECT 1") == [(1,)]
    program.kill()
    program.wait()


def test_the_server_of_a_killed_supervisor_ends_and_the_next_one_starts(data_folder: Path) -> None:
    program, pid = run_database(data_folder)
    execute(data_folder, "CREATE TABLE kept (id int)")
    program.kill()
    program.wait()
    with database(data_folder):
        assert execute(data_folder, "SELECT count(*) FROM kept") == [(0,)]
        assert not is_alive(pid)


def test_a_stale_pid_file_that_names_another_process_is_no_obstacle(data_folder: Path) -> None:
    with database(data_folder):
        home = Postgres(data_folder).home
    (home / "postmaster.pid").write_text(f"{os.getpid()}\n{home}\n")
    with database(data_folder):
        assert execute(data_folder, "SELECT 1") == [(1,)]


def test_an_interrupted_first_start_is_done_again(data_folder: Path) -> None:
    (data_folder / "postgres.new").mkdir()
    (data_folder / "postgres.new" / "PG_VERSION").write_text("18\n")
    with database(data_folder):
        assert execute(data_folder, "SELECT 1") == [(1,)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands its database to another account")
def test_root_keeps_the_data_of_a_private_folder_where_the_account_can_reach_it(data_folder: Path) -> None:
    private = data_folder / "private"
    private.mkdir(mode=0o700)
    data = private / "var"
    data.mkdir()
    with database(data):
        execute(data, "CREATE TABLE kept (id int)")
    home = (data / "postgres").readlink()
    assert home.is_relative_to(reach.SHARED)
    with database(data):
        assert execute(data, "SELECT count(*) FROM kept") == [(0,)]
    remove_data_folder(data)
    assert not home.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands its database to another account")
def test_the_programs_of_a_private_environment_are_copied_and_run(data_folder: Path) -> None:
    packages = Path(reach.find_package()).parent
    copied = reach.copy_programs(packages, data_folder / "shared") / reach.WHEEL / reach.VERSION / "bin"
    for program in ("postgres", "initdb"):
        done = subprocess.run(
            [copied / program, "--version"], user=postgres_account().uid, capture_output=True, check=True, cwd="/"
        )
        assert b"PostgreSQL" in done.stdout


def test_a_folder_is_reachable_only_if_all_above_it_are(tmp_path: Path) -> None:
    stranger = Account(uid=54321, gid=54321)
    (tmp_path / "closed").mkdir(mode=0o700)
    (tmp_path / "closed" / "open").mkdir(mode=0o755)
    assert not stranger.can_reach(tmp_path / "closed" / "open")
    assert Account(os.geteuid(), os.getegid()).can_reach(Path("/usr/bin"))


def test_a_data_folder_with_a_long_name_gets_a_short_socket(data_folder: Path) -> None:
    data = data_folder / ("long" * 40)
    data.mkdir()
    assert len(str(postgres_sockets(data) / ".s.PGSQL.5432")) < 107
    with Supervisor([valkey_process(data)]):
        assert valkey_socket(data).is_socket()
    remove_data_folder(data)


def test_valkey_answers_on_its_socket_and_keeps_nothing(data_folder: Path) -> None:
    with Supervisor([valkey_process(data_folder)]) as supervisor:
        client = redis.Redis(unix_socket_path=str(valkey_socket(data_folder)))
        client.set("key", "value")
        pid = supervisor.pid_of("broker")
        assert pid is not None
        assert psutil.Process(pid).net_connections("inet") == []
        os.kill(pid, signal.SIGKILL)
        until(lambda: supervisor.restarts_of("broker") == 1 and supervisor.pid_of("broker"))
        until(lambda: client.ping())
        assert client.get("key") is None
        client.close()
    assert list(data_folder.iterdir()) == []


def test_a_run_folder_that_somebody_else_made_is_refused(data_folder: Path) -> None:
    run_folder(data_folder).parent.mkdir(parents=True, exist_ok=True)
    run_folder(data_folder).symlink_to("/etc")
    with pytest.raises(EmbeddedError, match="belongs to another"):
        Supervisor([valkey_process(data_folder)]).start()
    run_folder(data_folder).unlink()
