"""manage.py demo: start everything, train the bundled model on the bundled tasks, show what it learnt, keep serving."""

from argparse import ArgumentParser

from django.core.management.base import BaseCommand

from controlplane.demo.command import play_demo
from controlplane.demo.options import add_arguments


class Command(BaseCommand):
    help = "Train the bundled model on the bundled tasks, from nothing, and show what it learnt."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_arguments(parser)

    def handle(self, *_args: object, **options: object) -> None:
        play_demo(options)
