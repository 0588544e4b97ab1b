"""Bring a weights folder in: checked, copied into the object store by digest, and only then ready."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from django.conf import settings
from django.db import transaction

from apps.accounts.models import Project
from apps.policies import states
from apps.policies.models import Policy
from apps.policies.weights import WEIGHTS, PolicyImportError, WeightsFolder, read_weights_folder
from wire.store import Store

MAX_NAME = 120


def import_policy(project: Project, name: str, folder: Path, store: Store, origin: dict[str, str]) -> Policy:
    """The ready policy of a weights folder; the same files under the same name are the same policy.

    Raises PolicyImportError."""
    _check_name(name, folder)
    found = read_weights_folder(folder)
    prefix = f"policies/{found.digest}"
    known = Policy.objects.filter(project=project, name=name).first()
    if known is None:
        _copy(found, prefix, store)
    with transaction.atomic():
        policy, created = Policy.objects.get_or_create(
            project=project,
            name=name,
            defaults={
                "digest": found.files[WEIGHTS],
                "prefix": prefix,
                "parameters": found.parameters,
                "context_tokens": found.context_tokens,
                "origin": origin,
            },
        )
        if created:
            policy.move(states.READY)
    if policy.prefix != prefix:
        raise PolicyImportError(folder, f"There is a policy {name!r} with other files.", "Choose another name.")
    return policy


def _check_name(name: str, folder: Path) -> None:
    if not name.strip() or len(name) > MAX_NAME or "\0" in name:
        problem = f"{name[:40]!r} ({len(name)} characters) cannot be the name of a policy."
        raise PolicyImportError(folder, problem, f"Give it a name of 1 to {MAX_NAME} characters.")


def _copy(found: WeightsFolder, prefix: str, store: Store) -> None:
    """Objects that are there already have the same content, by their prefix, and are left alone."""
    place = Path(settings.ASSAY_DATA)
    there = set(store.list(prefix))
    try:
        place.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix="policy-", dir=place) as beside:
            # The weights go last: a reader that finds them finds everything.
            for name in sorted(found.files, key=lambda name: (name == WEIGHTS, name)):
                if (key := f"{prefix}/{name}") not in there:
                    copy = Path(beside) / name
                    shutil.copyfile(found.path / name, copy)
                    store.put_file(key, copy)
    except OSError as error:
        problem = f"It cannot be copied: {error}."
        raise PolicyImportError(found.path, problem, "Make room, or mend the permissions.") from error
