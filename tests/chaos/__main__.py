"""What the tests ask of the installation under attack, with its settings: python -m tests.chaos supply|launch|audit

It prints one line of JSON.
"""

import json
import os
import sys
from importlib import import_module

import django


def main() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "controlplane.settings"
    django.setup()
    name, *arguments = sys.argv[1:]
    answer = import_module(f"tests.chaos.{name}").act(*arguments)
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
