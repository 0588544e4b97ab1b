"""manage.py import_image: bring an image in from a file, for FROM in the Dockerfiles of tasks."""

from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import BaseCommand

from controlplane.management.tools import run_tool


class Command(BaseCommand):
    help = "Bring an image in from a file of docker save, docker export or an OCI archive, under a name for FROM."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="as FROM has it, such as debian:12")
        parser.add_argument("file", type=Path)

    def handle(self, *_args: object, name: str, file: Path, **_options: object) -> None:
        self.stdout.write(run_tool("sandbox_worker.import_image", name, str(file.resolve())).strip())
