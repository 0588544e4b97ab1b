"""The web process as it is deployed, on the tests' database, and a Chromium to look at it with."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from django.conf import settings
from django.db import connections
from playwright.sync_api import BrowserContext, sync_playwright

T = TypeVar("T")
START_SECONDS = 40
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or "/usr/bin/chromium"
"""Without one the tests fail, and say so."""
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--no-first-run",
    "--no-pings",
)


class Web:
    """One web process that can be stopped and started again at the same address."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.address = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "uvicorn", "controlplane.asgi:application", "--port", str(self.port)]
        self._process = subprocess.Popen(
            [*command, "--log-level", "warning"], cwd=settings.BASE_DIR, env=_environment()
        )
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and not self._answers():
            time.sleep(0.1)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/healthz", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def _environment() -> dict[str, str]:
    return {**os.environ, "DJANGO_SETTINGS_MODULE": "controlplane.settings"}


def collect_static() -> None:
    """Hashed, as in production."""
    command = [sys.executable, "manage.py", "collectstatic", "--noinput", "--verbosity", "0"]
    subprocess.run(command, cwd=settings.BASE_DIR, env=_environment(), check=True)


@contextmanager
def web_process() -> Iterator[Web]:
    web = Web()
    web.start()
    try:
        yield web
    finally:
        web.stop()


@contextmanager
def browser(web: Web, cookies: dict[str, str], **options: Any) -> Iterator[BrowserContext]:
    """A fresh Chromium profile that is signed in by these cookies."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        context = chromium.new_context(**options)
        context.add_cookies([{"name": name, "value": value, "url": web.address} for name, value in cookies.items()])
        try:
            yield context
        finally:
            context.close()
            chromium.close()


def beside(work: Callable[[], T]) -> T:
    """Do database work in a thread of its own: the browser's event loop holds this one."""

    def alone() -> T:
        try:
            return work()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(alone).result()
