"""What a demo keeps of a run beside the data: its numbers and peak memory, for the next demo that serves this run."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from apps.runs.models import Run
from controlplane.demo.options import DemoOptions


@dataclass(frozen=True)
class Kept:
    peak_rss_bytes: int | None = None
    """Of the demos that watched the run; None if none of them did."""
    numbers: dict[str, Any] | None = None
    """None until the run has finished under the eyes of a demo."""


def kept(run: Run) -> Kept:
    path = _path(run)
    if not path.exists():
        return Kept()
    values = json.loads(path.read_text())
    return Kept(values["peak_rss_bytes"], values["numbers"])


def keep(run: Run, options: DemoOptions, peak_rss_bytes: int | None, numbers: dict[str, Any] | None) -> None:
    made_with = {"preset": options.preset, "seed": options.seed, "quick": options.quick}
    values = {"options": made_with, "peak_rss_bytes": peak_rss_bytes, "numbers": numbers}
    _path(run).parent.mkdir(parents=True, exist_ok=True)
    write_json(_path(run), values)


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Whole or not at all."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(json.dumps(values, indent=2) + "\n")
    part.replace(path)


def _path(run: Run) -> Path:
    return Path(settings.ASSAY_DATA) / "demo" / f"{run.pk}.json"
