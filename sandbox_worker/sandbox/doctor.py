"""Prints the report on this host as JSON: python -m sandbox_worker.sandbox.doctor --data FOLDER.

Which boxes are wanted it reads from the environment, as a worker does.
"""

import argparse
import dataclasses
import json
import os
import sys
from pathlib import Path

from sandbox_worker.sandbox.choose import WantedError, wanted
from sandbox_worker.sandbox.examine import examine

BAD_SETTINGS_EXIT = 64


def main() -> None:
    parser = argparse.ArgumentParser(prog="doctor")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds what must not fill up")
    asked = parser.parse_args()
    try:
        boxes = wanted(os.environ)
    except WantedError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(BAD_SETTINGS_EXIT)
    found = examine(asked.data.absolute(), boxes)
    sys.stdout.write(json.dumps([dataclasses.asdict(finding) for finding in found]) + "\n")


if __name__ == "__main__":
    main()
