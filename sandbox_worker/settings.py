"""What a sandbox worker reads from its environment, once, failing loudly."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from sandbox_worker.errors import SandboxWorkerError

_TRUE = ("1", "true", "yes")


class SettingsError(SandboxWorkerError):
    """A variable is missing or wrong; names it."""


@dataclass(frozen=True)
class Settings:
    broker_url: str
    store_url: str
    slots: int
    """Rollouts at once."""
    allow_weaker: bool
    """Boxes that isolate less than the default are accepted, and said so at each heartbeat."""


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    return Settings(
        broker_url=_required(environment, "ASSAY_BROKER_URL"),
        store_url=_required(environment, "ASSAY_STORE_URL"),
        slots=_slots(environment.get("ASSAY_SANDBOX_SLOTS", "32")),
        allow_weaker=environment.get("ASSAY_ALLOW_WEAKER_BOXES", "").lower() in _TRUE,
    )


def _required(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "")
    if not value:
        raise SettingsError(f"{name} is not set")
    return value


def _slots(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 1024:
        raise SettingsError(f"ASSAY_SANDBOX_SLOTS must be a number from 1 to 1024, not {text!r}")
    return int(text)
