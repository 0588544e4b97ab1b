"""Writes bundled instances into a folder, for a person to look at: python -m apps.tasks.bundled.write FOLDER."""

import argparse
import sys
from pathlib import Path

from apps.tasks.bundled.families import FAMILIES, write_instance


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m apps.tasks.bundled.write", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--families", nargs="+", choices=sorted(FAMILIES), default=list(FAMILIES), metavar="FAMILY")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], metavar="SEED")
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    for family in asked.families:
        for seed in asked.seeds:
            folder = asked.folder / f"{family}-{seed}"
            write_instance(family, seed, folder)
            sys.stdout.write(f"{folder}\n")


if __name__ == "__main__":
    main()
