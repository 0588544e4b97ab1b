"""Bring a weights folder in: checked, copied into the object store by digest, and only then ready."""

import hashlib
import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from apps.accounts.models import Project
from apps.policies import states
from apps.policies.models import Policy
from wire.store import Store

NEEDED = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
CHUNK = 1 << 20


class PolicyImportError(Exception):
    """A weights folder that cannot be used."""

    def __init__(self, path: Path, problem: str, way_out: str) -> None:
        super().__init__(f"{path}: {problem} {way_out}")
        self.path = path
        self.problem = problem
        self.way_out = way_out


def import_policy(project: Project, name: str, folder: Path, store: Store, origin: dict[str, str]) -> Policy:
    """The ready policy of a weights folder; the same weights under the same name are the same policy.

    Raises PolicyImportError."""
    config = _checked(folder)
    digest = sha256_of(folder / "model.safetensors")
    known = Policy.objects.filter(project=project, name=name).first()
    if known is not None and known.digest == digest and known.state == states.READY:
        return known
    if known is not None:
        raise PolicyImportError(folder, f"There is a policy {name!r} with other weights.", "Choose another name.")
    prefix = f"policies/{digest}"
    _copy(folder, prefix, store)
    policy = Policy.objects.create(
        project=project,
        name=name,
        digest=digest,
        prefix=prefix,
        parameters=_parameters(folder / "model.safetensors"),
        context_tokens=int(config.get("max_position_embeddings", 0)),
        origin=origin,
    )
    policy.move(states.READY)
    return policy


def sha256_of(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(CHUNK):
            found.update(block)
    return found.hexdigest()


def _checked(folder: Path) -> dict[str, int]:
    for needed in NEEDED:
        if not (folder / needed).is_file():
            raise PolicyImportError(folder, f"{needed} is missing.", f"A weights folder holds {', '.join(NEEDED)}.")
    try:
        config = json.loads((folder / "config.json").read_text())
    except ValueError as error:
        raise PolicyImportError(
            folder / "config.json", f"It is no JSON: {error}.", "Export the model again."
        ) from error
    _header(folder / "model.safetensors")
    return dict(config)


def _header(path: Path) -> dict[str, dict[str, object]]:
    """The table of tensors of a safetensors file, checked against the file's size."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 0 < length < 100_000_000:
                raise ValueError("its header has an impossible length")
            header: dict[str, dict[str, object]] = json.loads(file.read(length))
        tensors = {name: row for name, row in header.items() if name != "__metadata__"}
        ends = [row["data_offsets"] for row in tensors.values()]
        expected = 8 + length + max(int(end[1]) for end in ends if isinstance(end, list))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise PolicyImportError(path, f"It is damaged: {error}.", "Copy or export the weights again.") from error
    if path.stat().st_size != expected:
        found = path.stat().st_size
        raise PolicyImportError(
            path, f"It is damaged: {found} bytes, its header says {expected}.", "Copy or export the weights again."
        )
    return tensors


def _parameters(path: Path) -> int:
    total = 0
    for row in _header(path).values():
        count = 1
        shape = row["shape"]
        for size in shape if isinstance(shape, list) else []:
            count *= int(size)
        total += count
    return total


def _copy(folder: Path, prefix: str, store: Store) -> None:
    with TemporaryDirectory(prefix="assay-policy-", dir=folder.parent) as place:
        # The weights go last: a reader that finds them finds everything.
        for path in sorted(folder.iterdir(), key=lambda path: path.name == "model.safetensors"):
            if path.is_file():
                copy = Path(place) / path.name
                shutil.copyfile(path, copy)
                store.put_file(f"{prefix}/{path.name}", copy)
