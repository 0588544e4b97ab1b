"""The one form of a benchmark's result, written to benchmarks/results/<name>.json and printed."""

import datetime
import json
import platform
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Measurement:
    metric: str
    arm: str
    value: float | None
    """None: not defined."""
    unit: str
    n: int
    p50: float | None = None
    p95: float | None = None
    failures: int = 0


@dataclass(frozen=True)
class Target:
    name: str
    value: float | None
    unit: str
    target: float | None
    """None: not defined, as where another arm gave no number."""
    met: bool | None
    """None in a quick run, which only proves that it runs."""


@dataclass(frozen=True)
class Result:
    name: str
    measurements: list[Measurement]
    targets: list[Target] = field(default_factory=list)

    def write(self, folder: Path = RESULTS) -> None:
        values = {
            "name": self.name,
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "machine": f"{platform.machine()}, {_cores()} cores, {platform.system()} {platform.release()}",
            "revision": _revision(),
            **{key: value for key, value in asdict(self).items() if key != "name"},
        }
        text = json.dumps(values, indent=2)
        folder.mkdir(exist_ok=True)
        (folder / f"{self.name}.json").write_text(text + "\n")
        print(text)


def _cores() -> int:
    return len(Path("/proc/cpuinfo").read_text().split("processor\t")) - 1


def _revision() -> str:
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip()
