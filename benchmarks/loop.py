"""How fast the whole loop turns: scripted rollouts, sampling, learning, and who waits for whom.

A stack in a data folder of its own, with the demo's tasks and model. A scripted rollout is no model call but all the
rest of a try: it starts two real boxes, one to act in and one to grade in, and runs the task's tests. Everything shares
the cores of one machine, so read ratios, not absolutes.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few steps: only proves that it runs")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="assay-loop-") as place:
        environment = {**os.environ, "ASSAY_DATA": str(Path(place) / "data")}
        demo = [sys.executable, "manage.py", "demo", "--exit", *(["--quick"] if chosen.quick else [])]
        subprocess.run(demo, env=environment, check=True, stdout=sys.stderr)
        # The figures are read from its database, which runs as long as something that uses it does.
        up = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--only", "beat"],
            env=environment,
            stdout=sys.stderr,
            stderr=sys.stderr,
        )
        try:
            wait_for_database(environment)
            subprocess.run([sys.executable, "-m", "benchmarks.loop_figures"], env=environment, check=True)
        finally:
            up.terminate()
            up.wait(15)
    return 0


def wait_for_database(environment: dict[str, str]) -> None:
    """Until a query is answered: about a minute, for each try waits ten seconds for a connection, as the pool does."""
    ask = [sys.executable, "manage.py", "migrate", "--check"]
    for _ in range(6):
        if subprocess.run(ask, env=environment, check=False, capture_output=True).returncode == 0:
            return
    raise SystemExit("the benchmark's database did not start")


if __name__ == "__main__":
    sys.exit(main())
