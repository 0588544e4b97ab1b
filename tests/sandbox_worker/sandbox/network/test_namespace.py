"""From inside a network namespace the proxy is the only way out."""

import pytest

from sandbox_worker.sandbox.network.allowlist import Allowlist
from sandbox_worker.sandbox.network.environment import proxy_environment
from sandbox_worker.sandbox.network.proxy import Proxy
from sandbox_worker.sandbox.network.verdict import Verdict
from tests.sandbox_worker.sandbox.network.namespace import namespace
from tests.sandbox_worker.sandbox.network.world import WebServer, until

pytestmark = pytest.mark.sandbox

ASK = """
import os, urllib.error, urllib.request
os.environ.update({env!r})
for url in {urls!r}:
    try:
        print(urllib.request.urlopen(url, timeout=20).read().decode())
    except urllib.error.HTTPError as error:
        print(error.code, error.reason)
    except OSError as error:
        print(error)
"""

AROUND = """
import socket, time
began = time.monotonic()
for family, address in {targets!r}:
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(20)
        try:
            client.connect(tuple(address))
            print("reached", address)
        except OSError as error:
            print(type(error).__name__)
try:
    print("found", socket.getaddrinfo("pkg.example", 80))
except OSError:
    print("no name")
"""


def test_a_listed_host_is_reached_from_inside_and_no_other(proxy: Proxy, web: WebServer, secure_web: WebServer) -> None:
    urls = [f"http://pkg.example:{web.port}/", "http://evil.example/", f"https://evil.example:{secure_web.port}/"]
    with namespace() as place:
        network = proxy.serve(place.listener.dup(), Allowlist.parse([f"pkg.example:{web.port}"]), "1.2.1")
        answers = place.run(ASK.format(env=dict(proxy_environment()), urls=urls)).splitlines()
    assert answers == [
        "hello",
        "403 evil.example is not on this task's list of hosts",
        "<urlopen error Tunnel connection failed: 403 evil.example is not on this task's list of hosts>",
    ]
    until(lambda: network.counters().open == 0)
    assert [one.verdict for one in network.log()] == [Verdict.ALLOWED, *[Verdict.HOST_NOT_ALLOWED] * 2]
    assert len(web.seen) == 1


def test_nothing_is_reached_around_the_proxy(proxy: Proxy, web: WebServer) -> None:
    targets = [
        (2, ["127.0.0.1", web.port]),
        (2, ["169.254.169.254", 80]),
        (2, ["1.1.1.1", 53]),
        (10, ["::1", web.port]),
    ]
    targets += [(2, ["172.17.0.1", 22]), (10, ["2606:4700::1111", 443])]
    with namespace() as place:
        network = proxy.serve(place.listener.dup(), Allowlist.parse([f"pkg.example:{web.port}"]), "1.2.1")
        printed = place.run(AROUND.format(targets=targets)).splitlines()
    assert printed == [
        "ConnectionRefusedError",
        "OSError",
        "OSError",
        "ConnectionRefusedError",
        "OSError",
        "OSError",
        "no name",
    ]
    assert not network.log()
    assert not web.seen


def test_a_namespace_that_is_gone_leaves_the_proxy_in_peace(proxy: Proxy, web: WebServer) -> None:
    with namespace() as place:
        network = proxy.serve(place.listener.dup(), Allowlist.parse([f"pkg.example:{web.port}"]), "1.2.1")
        place.run("import socket; socket.create_connection(('127.0.0.1', 3128)).sendall(b'CONNECT ')")
    until(lambda: network.counters().of(Verdict.HUNG_UP) + network.counters().of(Verdict.BAD_REQUEST) == 1)
    network.close()
    with namespace() as place:
        proxy.serve(place.listener.dup(), Allowlist.parse([f"pkg.example:{web.port}"]), "1.2.2")
        ask = ASK.format(env=dict(proxy_environment()), urls=[f"http://pkg.example:{web.port}/"])
        assert place.run(ask) == "hello\n"
