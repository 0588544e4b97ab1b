"""The servers of a small internet, its names, and a proxy that may lead there."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_worker.sandbox.network.proxy import Proxy
from tests.sandbox_worker.sandbox.network.world import Names, WebServer, make_certificate, only_the_servers, serving


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def web() -> Iterator[WebServer]:
    with serving(WebServer()) as server:
        yield server


@pytest.fixture
def secure_web(certificate: ssl.SSLContext) -> Iterator[WebServer]:
    with serving(WebServer(certificate)) as server:
        yield server


@pytest.fixture
def names() -> Names:
    return Names()


@pytest.fixture
def proxy(names: Names) -> Iterator[Proxy]:
    opened = Proxy(resolve=names, why_not=only_the_servers)
    yield opened
    opened.close()


@pytest.fixture
def trust(tmp_path: Path) -> ssl.SSLContext:
    """A client that takes any certificate: which host it speaks to is what is tested."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
