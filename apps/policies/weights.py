"""Reads a weights folder before anything of it is kept: every file that sampling and learning need, checked."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import jinja2
import msgspec
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

NEEDED = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
WEIGHTS = "model.safetensors"
ARCHITECTURE = "llama"
PLAIN_ROPE = "default"
MAX_HEADER_BYTES = 100_000_000
MAX_CONTEXT = 2**31 - 1
EXPORT_AGAIN = "Copy or export the weights again."

Size = Annotated[int, msgspec.Meta(ge=0)]


class PolicyImportError(Exception):
    """A weights folder that cannot be used."""

    def __init__(self, path: Path, problem: str, way_out: str) -> None:
        super().__init__(f"{path}: {problem} {way_out}")
        self.path = path
        self.problem = problem
        self.way_out = way_out


class Tensor(msgspec.Struct, frozen=True):
    """A row of the header of a safetensors file."""

    shape: list[Size]
    data_offsets: tuple[Size, Size]

    @property
    def count(self) -> int:
        total = 1
        for size in self.shape:
            total *= size
        return total


@dataclass(frozen=True)
class WeightsFolder:
    """What is kept of a weights folder."""

    path: Path
    files: dict[str, str]
    """SHA-256 by name, of every file."""
    parameters: int
    context_tokens: int

    @property
    def digest(self) -> str:
        """Of all files: SHA-256 over the sorted records 'name NUL sha256 LF'."""
        found = hashlib.sha256()
        for name in sorted(self.files):
            found.update(f"{name}\0{self.files[name]}\n".encode())
        return found.hexdigest()


def read_weights_folder(path: Path) -> WeightsFolder:
    """Raises PolicyImportError."""
    try:
        return _read(path)
    except OSError as error:
        raise PolicyImportError(path, f"It cannot be read: {error}.", "Mend it or its permissions.") from error


def _read(path: Path) -> WeightsFolder:
    if not path.is_dir():
        raise PolicyImportError(path, "It is no folder.", f"Name a folder that holds {', '.join(NEEDED)}.")
    for needed in NEEDED:
        if not (path / needed).is_file():
            raise PolicyImportError(path, f"{needed} is missing.", f"A weights folder holds {', '.join(NEEDED)}.")
    context_tokens = _context_tokens(path / "config.json")
    _check_tokenizer(path / "tokenizer.json")
    _check_template(path / "tokenizer_config.json")
    tensors = _tensors(path / WEIGHTS)
    return WeightsFolder(
        path=path,
        files={file.name: sha256_of(file) for file in path.iterdir() if file.is_file()},
        parameters=sum(tensor.count for tensor in tensors),
        context_tokens=context_tokens,
    )


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _object(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise PolicyImportError(path, f"It is no JSON: {error}.", "Export the model again.") from error
    if not isinstance(found, dict):
        raise PolicyImportError(
            path, f"It must hold a JSON object; it holds {str(found)[:80]!r}.", "Export the model again."
        )
    return found


def _context_tokens(path: Path) -> int:
    config = _object(path)
    if (kind := config.get("model_type")) != ARCHITECTURE:
        way_out = "Only llama models can be sampled and trained; export one of those."
        raise PolicyImportError(path, f"model_type must be {ARCHITECTURE!r}; it is {kind!r}.", way_out)
    context = config.get("max_position_embeddings")
    if type(context) is not int or not 0 < context <= MAX_CONTEXT:
        raise PolicyImportError(
            path,
            f"max_position_embeddings must be a whole number above 0; it is {str(context)[:80]!r}.",
            "Set it to the number of tokens that the model can read at once.",
        )
    _check_rope(path, config)
    return context


def _check_rope(path: Path, config: dict[str, Any]) -> None:
    """The learner would honour a scaling that the embedded policy server does not know: two models under one name."""
    for field in ("rope_scaling", "rope_parameters"):
        if not (found := config.get(field)):
            continue
        kind = found.get("rope_type") or found.get("type") or PLAIN_ROPE if isinstance(found, dict) else None
        if kind != PLAIN_ROPE:
            raise PolicyImportError(
                path,
                f"{field} must be absent or of rope_type {PLAIN_ROPE!r}; it is {str(found)[:80]!r}.",
                "Only plain rotary positions can be sampled and trained; take a model without scaled ones.",
            )


def _check_tokenizer(path: Path) -> None:
    try:
        Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise PolicyImportError(path, f"It is no tokenizer: {error}.", "Copy or export the tokenizer again.") from error


def _check_template(path: Path) -> None:
    template = _object(path).get("chat_template")
    if not isinstance(template, str) or not template.strip():
        raise PolicyImportError(
            path,
            f"chat_template must be the text of a template; it is {str(template)[:80]!r}.",
            "Put the chat template of the model there, also if it came as a chat_template.jinja.",
        )
    try:
        ImmutableSandboxedEnvironment().from_string(template)
    except jinja2.TemplateError as error:
        raise PolicyImportError(path, f"chat_template is no template: {error}.", "Mend the template.") from error


def _tensors(path: Path) -> Iterable[Tensor]:
    """The table of tensors of a safetensors file, checked against the file's size."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 0 < length < MAX_HEADER_BYTES:
                raise ValueError("its header has an impossible length")
            header = msgspec.json.decode(file.read(length), type=dict[str, Any])
        header.pop("__metadata__", None)
        tensors = msgspec.convert(header, dict[str, Tensor]).values()
        if not tensors:
            raise ValueError("it holds no tensor")
        if any(tensor.count > tensor.data_offsets[1] - tensor.data_offsets[0] for tensor in tensors):
            raise ValueError("a tensor has more numbers than bytes")
    except (ValueError, RecursionError) as error:
        raise PolicyImportError(path, f"It is damaged: {error}.", EXPORT_AGAIN) from error
    expected = 8 + length + max(tensor.data_offsets[1] for tensor in tensors)
    if (found := path.stat().st_size) != expected:
        raise PolicyImportError(path, f"It is damaged: {found} bytes, its header says {expected}.", EXPORT_AGAIN)
    return tensors
