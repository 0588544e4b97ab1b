#!/usr/bin/env python
"""The command line of the control plane."""

import os
import sys

from django.core.management import execute_from_command_line

from controlplane.environment import EnvironmentVariableError

MISUSED = 2


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    try:
        execute_from_command_line(sys.argv)
    except EnvironmentVariableError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(MISUSED)


if __name__ == "__main__":
    main()
