"""Prints the report on this host as JSON: python -m sandbox_worker.sandbox.doctor --data FOLDER [--allow-weaker]."""

import argparse
import dataclasses
import json
import sys
from pathlib import Path

from sandbox_worker.sandbox.examine import examine


def main() -> None:
    parser = argparse.ArgumentParser(prog="doctor")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds what must not fill up")
    parser.add_argument("--allow-weaker", action="store_true", help="boxes without limits from outside are accepted")
    asked = parser.parse_args()
    found = examine(asked.data.absolute(), allow_weaker=asked.allow_weaker)
    sys.stdout.write(json.dumps([dataclasses.asdict(finding) for finding in found]) + "\n")


if __name__ == "__main__":
    main()
