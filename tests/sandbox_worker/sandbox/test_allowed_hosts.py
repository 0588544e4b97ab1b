"""A box with a list of hosts has a way out, through the proxy alone."""

import pytest

from sandbox_worker.sandbox.base import Backend, BoxSpec, BoxStartError
from tests.sandbox_worker.sandbox.boxes import open_descriptors, python, said

pytestmark = pytest.mark.sandbox

ASK = """
import urllib.request, urllib.error
try: print(urllib.request.urlopen({url!r}, timeout=10).status)
except urllib.error.HTTPError as e: print(e.code, e.reason)
"""
DIRECT = "import socket\ntry: socket.create_connection(({host!r}, 80), 5)\nexcept OSError as e: print(type(e).__name__)"


def test_a_host_off_the_list_is_refused_by_the_proxy_in_words(backend: Backend) -> None:
    box = backend.start(BoxSpec(allowed_hosts=("pypi.org",)))
    try:
        assert said(python(box, ASK.format(url="http://example.com/"))).startswith("403")
        assert "example.com" in said(python(box, ASK.format(url="http://example.com/")))
    finally:
        box.stop()


@pytest.mark.parametrize("host", ["169.254.169.254", "10.0.0.1", "8.8.8.8"])
def test_there_is_no_way_around_the_proxy(backend: Backend, host: str) -> None:
    box = backend.start(BoxSpec(allowed_hosts=("pypi.org",)))
    try:
        assert said(python(box, DIRECT.format(host=host))) == "OSError"
        assert said(python(box, ASK.format(url=f"http://{host}/"))).startswith("403")
    finally:
        box.stop()


def test_a_box_without_a_list_has_no_proxy(backend: Backend) -> None:
    box = backend.start(BoxSpec())
    try:
        assert said(python(box, "import os; print([n for n in os.environ if 'proxy' in n.lower()])")) == "[]"
        script = (
            "import socket\ntry: socket.create_connection(('127.0.0.1', 3128), 5)\nexcept OSError as e: print(e.errno)"
        )
        assert said(python(box, script)) == "111"
    finally:
        box.stop()


def test_a_list_that_cannot_be_is_refused_and_leaves_nothing(backend: Backend) -> None:
    before = open_descriptors()
    with pytest.raises(BoxStartError, match=r"\*\.com"):
        backend.start(BoxSpec(allowed_hosts=("*.com",)))
    assert open_descriptors() <= before + 8, "the proxy's own, once"
