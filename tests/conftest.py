"""Gives the tests their servers and counts what ran on real machinery."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from tests.servers import Servers, make_data_folder, remove_data_folder

REAL = ("browser", "sandbox", "docker", "process")
"""Markers whose tests must not silently go missing: the summary counts them."""

SERVERS = pytest.StashKey[Servers]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SERVERS] = Servers(settings.ASSAY_DATA)


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[SERVERS].stop()


@pytest.fixture(scope="session")
def broker(pytestconfig: pytest.Config) -> str:
    """The address of the session's Valkey, as ASSAY_BROKER_URL."""
    pytestconfig.stash[SERVERS].start()
    return str(settings.ASSAY_BROKER_URL)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(broker: str) -> None:
    """Asked for by the first test that uses the database."""


@pytest.fixture
def data_folder() -> Iterator[Path]:
    """A fresh ASSAY_DATA that PostgreSQL's account can reach."""
    folder = make_data_folder()
    yield folder
    remove_data_folder(folder)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """By its markers: a report knows only words, and a folder's name is one too."""
    for item in items:
        item.user_properties += [("real", marker) for marker in REAL if item.get_closest_marker(marker)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many of them ran: a host that lacks the machinery shows here."""
    ran = [
        marker
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        for name, marker in report.user_properties
        if report.when == "call" and name == "real"
    ]
    terminalreporter.write_line("ran on real machinery: " + ", ".join(f"{ran.count(name)} {name}" for name in REAL))
