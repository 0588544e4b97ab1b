"""manage.py doctor: can this host make safe boxes, how was that proved, and what is to be done for each miss."""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import IO, cast

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console

from controlplane.doctor import EXIT, VERDICTS, DoctorError, as_advice, as_json, as_table, examine_host
from wire.finding import Finding, worst

PIPED_WIDTH = 120


class Command(BaseCommand):
    help = (
        "Examine this host: what its boxes need, and whether their limits take effect, tried in real boxes."
        " Exit code 0: all is well; 1: weaker than it should be; 2: it cannot isolate."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print the rows as JSON, for programs")

    def handle(self, *_args: object, json: bool, no_color: bool, **_options: object) -> None:
        try:
            findings = examine_host(settings.BASE_DIR, settings.ASSAY_DATA)
        except DoctorError as error:
            raise CommandError(str(error), returncode=EXIT["missing"]) from error
        state = worst(findings)
        if json:
            self.stdout.write(as_json(findings))
        else:
            self._show(findings, no_color)
        sys.exit(EXIT[state])

    def _show(self, findings: Sequence[Finding], no_color: bool) -> None:
        out = cast(IO[str], self.stdout)
        console = Console(file=out, no_color=no_color, highlight=False, width=None if out.isatty() else PIPED_WIDTH)
        console.print(as_table(findings))
        for line in (*as_advice(findings), VERDICTS[worst(findings)]):
            console.print(f"\n{line}", soft_wrap=True, markup=False)
