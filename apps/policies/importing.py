"""Bring a weights folder in: checked, copied into the object store by digest, and only then ready.

Brought in again, it mends what the store has lost or damaged of it.
"""

import shutil
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Imported:
    policy: Policy
    mended: tuple[str, ...]
    """Files that the store had lost, or held with other content, of a policy that was known."""


def import_policy(project: Project, name: str, folder: Path, store: Store, origin: dict[str, str]) -> Imported:
    """The ready policy of a weights folder; the same files under the same name are the same policy.

    Raises PolicyImportError."""
    _check_name(name, folder)
    found = read_weights_folder(folder)
    prefix = f"policies/{found.digest}"
    known = Policy.objects.filter(project=project, name=name).first()
    stood = Policy.objects.filter(prefix=prefix).exists()
    written = _copy(found, prefix, store) if known is None or known.prefix == prefix else ()
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
    return Imported(policy, written if stood else ())


def _check_name(name: str, folder: Path) -> None:
    if not name.strip() or len(name) > MAX_NAME or "\0" in name:
        problem = f"{name[:40]!r} ({len(name)} characters) cannot be the name of a policy."
        raise PolicyImportError(folder, problem, f"Give it a name of 1 to {MAX_NAME} characters.")


def _copy(found: WeightsFolder, prefix: str, store: Store) -> tuple[str, ...]:
    """The names of the files written: those whose objects are not there whole. The others are left alone."""
    place = Path(settings.ASSAY_DATA)
    wanted = _not_whole(found, prefix, store)
    try:
        place.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix="policy-", dir=place) as beside:
            # The weights go last: a reader that finds them finds everything.
            for name in sorted(wanted, key=lambda name: (name == WEIGHTS, name)):
                copy = Path(beside) / name
                shutil.copyfile(found.path / name, copy)
                store.put_file(f"{prefix}/{name}", copy)
    except OSError as error:
        problem = f"It cannot be copied: {error}."
        raise PolicyImportError(found.path, problem, "Make room, or mend the permissions.") from error
    return tuple(sorted(wanted))


def _not_whole(found: WeightsFolder, prefix: str, store: Store) -> list[str]:
    """A prefix promises a content, which a disk may have damaged since: what is there is read."""
    there = set(store.list(prefix))
    return [
        name
        for name, digest in found.files.items()
        if (key := f"{prefix}/{name}") not in there or store.sha256(key) != digest
    ]
