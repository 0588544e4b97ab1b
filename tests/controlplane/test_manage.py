"""manage.py tells of a bad environment in one sentence."""

import os
import subprocess
import sys

import pytest
from django.conf import settings


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ASSAY_WEB_BIND", "8400"),
        ("ASSAY_THREADS", "x"),
        ("ASSAY_POLICY_URL", "http://127.0.0.1:70000"),
        ("ASSAY_LOG_LEVEL", "loud"),
        ("ASSAY_DATABASE_URL", "postgresql://[bad"),
        ("ASSAY_DATA", "/etc/passwd"),
    ],
)
def test_a_bad_environment_is_one_sentence_and_no_traceback(name: str, value: str) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=settings.BASE_DIR,
        env={**os.environ, name: value, "DJANGO_SETTINGS_MODULE": "controlplane.settings"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"The environment variable {name} is '{value}'; it must be ")
    assert done.returncode == 2
