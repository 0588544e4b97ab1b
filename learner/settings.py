"""What a learner reads from its environment, once, failing loudly."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from learner.errors import LearnerError


class SettingsError(LearnerError):
    """A variable is missing or wrong; names it."""


@dataclass(frozen=True)
class Settings:
    broker_url: str
    store_url: str
    data: Path
    threads: int
    """Of torch."""


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    threads = environment.get("ASSAY_TORCH_THREADS", "") or "2"
    if not threads.isdigit() or not int(threads):
        raise SettingsError(f"ASSAY_TORCH_THREADS must be a number from 1, not {threads!r}")
    return Settings(
        broker_url=_required(environment, "ASSAY_BROKER_URL"),
        store_url=_required(environment, "ASSAY_STORE_URL"),
        data=Path(environment.get("ASSAY_DATA", "") or "var"),
        threads=int(threads),
    )


def _required(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "")
    if not value:
        raise SettingsError(f"{name} is not set")
    return value
