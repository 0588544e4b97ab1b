"""manage.py build_base_image: the base of the boxes, made of this host's Debian packages; no registry is asked."""

from argparse import ArgumentParser

from django.core.management.base import BaseCommand

from controlplane.management.tools import run_tool


class Command(BaseCommand):
    help = "Make the bundled base image assay/base of this host's own Debian packages, without a registry."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--docker", default="", metavar="URL", help="an Engine that gets it too, unix:///…")

    def handle(self, *_args: object, docker: str, **_options: object) -> None:
        arguments = ["--docker", docker] if docker else []
        self.stdout.write(run_tool("sandbox_worker.build_base_image", *arguments).strip())
