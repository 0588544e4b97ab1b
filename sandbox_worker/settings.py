"""What a sandbox worker reads from its environment, once, failing loudly."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlparse

from sandbox_worker.errors import SandboxWorkerError
from sandbox_worker.sandbox.choose import Wanted, WantedError, wanted
from sandbox_worker.sandbox.meeting import meeting_folder

WARM_BOXES = 16
MOST_WARM_BOXES = 128
"""Half of what one worker has uids for: the other half is for the boxes in use."""


class SettingsError(SandboxWorkerError):
    """A variable is missing or wrong; names it."""


@dataclass(frozen=True)
class Settings:
    broker_url: str
    store_url: str
    slots: int
    """Rollouts at once."""
    boxes: Wanted
    """Which kind; one that isolates less than the default says so at each heartbeat."""
    images: Path
    """Where this host keeps the images of its boxes, for all its workers."""
    meeting: Path
    """Where the workers of this host meet: the limit of starts, the record of boxes."""
    warm_boxes: int
    """Most boxes that are started ahead of demand; 0: none."""

    @property
    def data(self) -> Path:
        """The folder that must not fill up: of the store, where that is one of this host."""
        parsed = urlparse(self.store_url)
        return Path(parsed.path if parsed.scheme in ("", "file") else tempfile.gettempdir()).absolute()


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    return Settings(
        broker_url=_required(environment, "ASSAY_BROKER_URL"),
        store_url=store_url(environment),
        slots=_number(environment, "ASSAY_SANDBOX_SLOTS", 32, least=1, most=240),
        boxes=_boxes(environment),
        images=images_folder(environment),
        meeting=meeting_folder(environment),
        warm_boxes=_number(environment, "ASSAY_WARM_BOXES", WARM_BOXES, least=0, most=MOST_WARM_BOXES),
    )


def store_url(environment: Mapping[str, str] = os.environ) -> str:
    """Raises SettingsError."""
    return _required(environment, "ASSAY_STORE_URL")


def images_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """One for the host where the worker is root, one for the user where it is not."""
    if named := environment.get("ASSAY_IMAGES", ""):
        return Path(named)
    if os.geteuid() == 0:
        return Path("/var/cache/assay/images")
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "assay/images"


def _required(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "")
    if not value:
        raise SettingsError(f"{name} is not set")
    return value


def _boxes(environment: Mapping[str, str]) -> Wanted:
    try:
        return wanted(environment)
    except WantedError as error:
        raise SettingsError(str(error)) from error


def _number(environment: Mapping[str, str], name: str, default: int, *, least: int, most: int) -> int:
    text = environment.get(name) or str(default)
    if not (text.isascii() and text.isdigit()) or not least <= int(text) <= most:
        raise SettingsError(f"{name} must be a number from {least} to {most}, not {text!r}")
    return int(text)
