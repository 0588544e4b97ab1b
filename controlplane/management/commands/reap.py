"""manage.py reap: remove from this host what workers left that did not end in order."""

import sys
from argparse import ArgumentParser
from typing import IO, cast

import msgspec
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console

from controlplane.reap import ReapError, Report, as_table, reap_host, summary

PIPED_WIDTH = 120


class Command(BaseCommand):
    help = (
        "Remove what has no live lease on this host: processes, control groups, containers, folders and records of"
        " workers that died. Workers do the same at their start and every 15 seconds."
        " Exit code 0: nothing is left; 1: something could not be removed."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")
        parser.add_argument("--json", action="store_true", help="print the report as JSON, for programs")

    def handle(self, *_args: object, dry_run: bool, json: bool, no_color: bool, **_options: object) -> None:
        try:
            report = reap_host(settings.BASE_DIR, dry_run=dry_run)
        except ReapError as error:
            raise CommandError(str(error)) from error
        if json:
            self.stdout.write(msgspec.json.encode(report).decode())
        else:
            self._show(report, dry_run=dry_run, no_color=no_color)
        sys.exit(1 if report.problems else 0)

    def _show(self, report: Report, *, dry_run: bool, no_color: bool) -> None:
        out = cast(IO[str], self.stdout)
        console = Console(file=out, no_color=no_color, highlight=False, width=None if out.isatty() else PIPED_WIDTH)
        if report.left:
            console.print(as_table(report, dry_run=dry_run))
        for problem in report.problems:
            console.print(problem, soft_wrap=True, markup=False)
        console.print(summary(report, dry_run=dry_run), soft_wrap=True, markup=False)
