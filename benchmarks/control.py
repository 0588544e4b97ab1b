"""Does it learn, or only move? The demo twice: with the true reward, and with a coin for a reward.

The second must not rise. Each arm is the whole demo in a data folder of its own, seeds alike.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.result import Measurement, Result, Target

ARMS = {"true reward": "warm-grpo", "coin": "control"}
RISE = 0.30
"""Points by GRPO alone that the true reward must reach."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a few steps: only proves that it runs")
    parser.add_argument("--true-reward", type=Path, metavar="FILE", help="numbers of a demo that was run before")
    chosen = parser.parse_args()
    known = {"true reward": json.loads(chosen.true_reward.read_text())} if chosen.true_reward else {}
    results = {arm: known.get(arm) or run_demo(preset, chosen.seed, quick=chosen.quick) for arm, preset in ARMS.items()}
    measurements = [row for arm, found in results.items() for row in _measurements(arm, found)]
    Result("control", measurements, _targets(results, quick=chosen.quick)).write()
    return 0


def run_demo(preset: str, seed: int, *, quick: bool) -> dict[str, Any]:
    """The numbers of one whole demo."""
    with tempfile.TemporaryDirectory(prefix="assay-control-") as place:
        out = Path(place) / "out.json"
        command = [sys.executable, "manage.py", "demo", "--exit", "--json", str(out)]
        command += ["--preset", preset, "--seed", str(seed), *(["--quick"] if quick else [])]
        environment = {**os.environ, "ASSAY_DATA": str(Path(place) / "data")}
        print(f"{preset}: running the demo", file=sys.stderr, flush=True)
        subprocess.run(command, env=environment, check=True, stdout=sys.stderr)
        found: dict[str, Any] = json.loads(out.read_text())
        return found


def _measurements(arm: str, found: dict[str, Any]) -> list[Measurement]:
    held_out = found["held_out"]
    tasks = held_out["tasks"]
    rows = [
        Measurement(f"held-out completion, {phase}", arm, held_out[phase], "share of tries", tasks)
        for phase in ("base", "warm", "final")
    ]
    difference = held_out["paired_difference"]
    rows += [
        Measurement(f"GRPO alone, paired: {bound}", arm, difference[bound], "share of tries", tasks)
        for bound in ("estimate", "low", "high")
    ]
    rows.append(Measurement("GRPO wall time", arm, found["train_seconds"], "s", found["grpo_steps"]))
    return rows


def _targets(results: dict[str, dict[str, Any]], *, quick: bool) -> list[Target]:
    true, coin = (results[arm]["held_out"]["paired_difference"] for arm in ARMS)
    return [
        Target("true reward: rise", true["estimate"], "share of tries", RISE, _met(true["estimate"], RISE, quick)),
        Target("true reward: lower bound", true["low"], "share of tries", 0.20, _met(true["low"], 0.20, quick)),
        Target("coin: upper bound of no rise", coin["low"], "share of tries", 0.0, _not_above(coin["low"], 0.0, quick)),
    ]


def _met(value: float | None, target: float, quick: bool) -> bool | None:
    return None if quick else value is not None and value >= target


def _not_above(value: float | None, target: float, quick: bool) -> bool | None:
    return None if quick else value is not None and value <= target


if __name__ == "__main__":
    sys.exit(main())
