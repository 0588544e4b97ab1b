"""How a box's commands find the proxy."""

import subprocess
import sys

from sandbox_worker.sandbox.network.environment import proxy_environment


def test_a_client_finds_the_proxy_for_everything_but_the_box_itself() -> None:
    asks = ("r.getproxies_environment()", "r.proxy_bypass('localhost')", "r.proxy_bypass('a.org')")
    script = f"import urllib.request as r; print({', '.join(asks)})"
    env = dict(proxy_environment())
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    address = "http://127.0.0.1:3128"
    expected = {"http": address, "https": address, "no": "localhost,127.0.0.1,::1"}
    assert done.stdout == f"{expected} True False\n"


def test_both_cases_say_the_same() -> None:
    env = dict(proxy_environment())
    assert {name.lower() for name in env} == {"http_proxy", "https_proxy", "no_proxy"}
    assert all(env[name.upper()] == env[name.lower()] for name in env)
