"""manage.py import_policy: bring a weights folder in under a name."""

from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import BaseCommand

from apps.accounts.models import Project
from apps.policies.importing import import_policy
from apps.policies.weights import PolicyImportError
from apps.trajectories.store import object_store
from controlplane.management.plainly import plainly


class Command(BaseCommand):
    help = "Import a weights folder (config.json, model.safetensors, tokenizer files) as a policy."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("folder", type=Path)

    def handle(self, *_args: object, name: str, folder: Path, **_options: object) -> None:
        with plainly(PolicyImportError):
            found = import_policy(Project.default(), name, folder, object_store(), {"source": str(folder.resolve())})
        policy = found.policy
        self.stdout.write(f"{policy.name}: {policy.parameters:,} parameters, sha256 {policy.digest}")
        if found.mended:
            self.stdout.write(f"mended in the store: {', '.join(found.mended)}")
