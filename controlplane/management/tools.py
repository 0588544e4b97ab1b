"""Commands whose work is a worker's: it is done by a process of the worker's own, which is told where everything is."""

import os
import subprocess
import sys

from django.conf import settings
from django.core.management.base import CommandError


def run_tool(module: str, *arguments: str) -> str:
    """What it said. Raises CommandError with what was wrong."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True,
        text=True,
        cwd=settings.BASE_DIR,
        env={**os.environ, "ASSAY_STORE_URL": settings.ASSAY_STORE_URL},
    )
    if done.returncode != 0:
        raise CommandError(done.stderr.strip() or f"{module} ended with {done.returncode}")
    return done.stdout
