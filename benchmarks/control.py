"""Does it learn, or only move? The demo twice: with the true reward, and with a coin for a reward.

The second must not rise: its estimate stays small, and its interval below what the true reward reaches. Each arm is
the whole demo in a data folder of its own, seeds alike.
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

UNIT = "share of tries"
ARMS = {"true reward": "warm-grpo", "coin": "control"}
RISE = 0.30
"""By GRPO alone, that the true reward must reach."""
RISE_AT_LEAST = 0.20
"""The lower bound of it."""
DRIFT = 0.10
"""By GRPO alone, that a coin must stay below."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a few steps: only proves that it runs")
    parser.add_argument("--true-reward", type=Path, metavar="FILE", help="numbers of a demo that was run before")
    chosen = parser.parse_args()
    known = {"true reward": json.loads(chosen.true_reward.read_text())} if chosen.true_reward else {}
    results = {arm: known.get(arm) or run_demo(preset, chosen.seed, quick=chosen.quick) for arm, preset in ARMS.items()}
    measurements = [row for arm, found in results.items() for row in _measurements(arm, found)]
    Result("control", measurements, targets(results, quick=chosen.quick)).write()
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
        Measurement(f"held-out completion, {phase}", arm, held_out[phase], UNIT, tasks)
        for phase in ("base", "warm", "final")
    ]
    difference = held_out["paired_difference"]
    rows += [
        Measurement(f"GRPO alone, paired: {bound}", arm, difference[bound], UNIT, tasks)
        for bound in ("estimate", "low", "high")
    ]
    rows.append(Measurement("GRPO wall time", arm, found["train_seconds"], "s", found["grpo_steps"]))
    return rows


def targets(results: dict[str, dict[str, Any]], *, quick: bool) -> list[Target]:
    true, coin = (results[arm]["held_out"]["paired_difference"] for arm in ARMS)
    ceiling = true["estimate"]
    return [
        _at_least("true reward: estimate of the rise", true["estimate"], RISE, quick=quick),
        _at_least("true reward: lower bound of the rise", true["low"], RISE_AT_LEAST, quick=quick),
        _below("coin: estimate of the rise, below", coin["estimate"], DRIFT, quick=quick),
        _below("coin: upper bound of the rise, below the true reward's estimate", coin["high"], ceiling, quick=quick),
    ]


def _at_least(name: str, value: float | None, target: float, *, quick: bool) -> Target:
    return Target(name, value, UNIT, target, None if quick else value is not None and value >= target)


def _below(name: str, value: float | None, target: float | None, *, quick: bool) -> Target:
    met = value is not None and target is not None and value < target
    return Target(name, value, UNIT, target, None if quick else met)


if __name__ == "__main__":
    sys.exit(main())
