"""A weights folder comes in whole and checked, or not at all; nothing of an earlier policy changes."""

import json
import struct
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

from apps.accounts.models import Project
from apps.lifecycle.models import Transition
from apps.policies.importing import import_policy
from apps.policies.models import Policy
from apps.policies.weights import PolicyImportError, sha256_of
from wire.store import FolderStore

pytestmark = pytest.mark.django_db
LLAMA = {"model_type": "llama", "max_position_embeddings": 64}


def weights_folder(folder: Path) -> Path:
    """A small one: one tensor of six numbers."""
    folder.mkdir()
    write_weights(folder, {"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}, 24)
    write(folder, "config.json", LLAMA)
    write(folder, "tokenizer_config.json", {"chat_template": "{{ messages[0].content }}"})
    Tokenizer(models.WordLevel({"a": 0, "?": 1}, unk_token="?")).save(str(folder / "tokenizer.json"))
    return folder


def write(folder: Path, name: str, value: object) -> None:
    (folder / name).write_text(json.dumps(value))


def write_weights(folder: Path, header: object, size: int) -> None:
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(size))


def bring(folder: Path, store: FolderStore, name: str = "small") -> Policy:
    return import_policy(Project.default(), name, folder, store, {"source": "here"}).policy


def test_a_policy_is_ready_when_its_files_are_stored(tmp_path: Path, store: FolderStore) -> None:
    folder = weights_folder(tmp_path / "weights")
    policy = bring(folder, store).reread()
    assert (policy.state, policy.parameters, policy.context_tokens) == ("ready", 6, 64)
    assert policy.digest == sha256_of(folder / "model.safetensors")
    stored = {Path(key).name: store.get(key) for key in store.list(policy.prefix)}
    assert stored == {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_same_files_under_the_same_name_are_the_same_policy(tmp_path: Path, store: FolderStore) -> None:
    folder = weights_folder(tmp_path / "weights")
    assert bring(folder, store) == bring(folder, store)
    assert Transition.objects.filter(subject="policy").count() == 1


def test_the_same_weights_with_another_tokenizer_leave_the_first_policy_alone(
    tmp_path: Path, store: FolderStore
) -> None:
    folder = weights_folder(tmp_path / "weights")
    first = bring(folder, store)
    before = {key: store.get(key) for key in store.list(first.prefix)}
    Tokenizer(models.WordLevel({"b": 0, "?": 1}, unk_token="?")).save(str(folder / "tokenizer.json"))
    with pytest.raises(PolicyImportError, match="'small' with other files"):
        bring(folder, store)
    second = bring(folder, store, "second")
    assert second.prefix != first.prefix
    assert second.digest == first.digest
    assert {key: store.get(key) for key in store.list(first.prefix)} == before


def test_objects_that_are_there_are_not_written_again(tmp_path: Path, store: FolderStore) -> None:
    folder = weights_folder(tmp_path / "weights")
    first = bring(folder, store)
    paths = [store.root / key for key in store.list(first.prefix)]
    before = [path.stat().st_ino for path in paths]
    assert bring(folder, store, "second").prefix == first.prefix
    assert [path.stat().st_ino for path in paths] == before


@pytest.mark.parametrize("name", ["small", "second"])
def test_what_the_store_has_damaged_or_lost_is_mended_by_bringing_it_again(
    name: str, tmp_path: Path, store: FolderStore
) -> None:
    folder = weights_folder(tmp_path / "weights")
    first = bring(folder, store)
    weights, config = (store.root / first.prefix / name for name in ("model.safetensors", "config.json"))
    weights.write_bytes(weights.read_bytes()[:-4] + b"\xff" * 4)
    config.unlink()
    again = import_policy(Project.default(), name, folder, store, {})
    assert again.mended == ("config.json", "model.safetensors")
    stored = {Path(key).name: store.get(key) for key in store.list(first.prefix)}
    assert stored == {path.name: path.read_bytes() for path in folder.iterdir()}
    assert import_policy(Project.default(), name, folder, store, {}).mended == ()


def test_what_was_never_stored_is_not_said_to_be_mended(tmp_path: Path, store: FolderStore) -> None:
    found = import_policy(Project.default(), "small", weights_folder(tmp_path / "weights"), store, {})
    assert found.mended == ()


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"])
def test_a_missing_file_is_named(name: str, tmp_path: Path, store: FolderStore) -> None:
    folder = weights_folder(tmp_path / "weights")
    (folder / name).unlink()
    with pytest.raises(PolicyImportError, match=f"{name} is missing"):
        bring(folder, store)


def test_plain_positions_are_taken_under_any_name(tmp_path: Path, store: FolderStore) -> None:
    for number, rope in enumerate([None, {}, {"type": "default"}, {"rope_type": "default", "rope_theta": 1e5}]):
        folder = weights_folder(tmp_path / str(number))
        write(folder, "config.json", LLAMA | {"rope_scaling": rope})
        assert bring(folder, store, f"policy {number}").state == "ready"


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("config.json", [1], r"config.json: It must hold a JSON object; it holds '\[1\]'"),
        ("config.json", {}, "model_type must be 'llama'; it is None"),
        ("config.json", {"model_type": "gpt2", "max_position_embeddings": 64}, "it is 'gpt2'. Only llama models"),
        ("config.json", {"model_type": "llama", "max_position_embeddings": None}, "max_position_embeddings must"),
        ("config.json", {"model_type": "llama", "max_position_embeddings": True}, "it is 'True'"),
        ("config.json", {"model_type": "llama", "max_position_embeddings": "64"}, "whole number"),
        ("config.json", {"model_type": "llama", "max_position_embeddings": 2**40}, "whole number"),
        ("config.json", LLAMA | {"rope_scaling": {"type": "linear"}}, "rope_scaling must .* 'linear'"),
        ("config.json", LLAMA | {"rope_scaling": {"rope_type": "yarn"}}, "rope_scaling must be absent or of rope_type"),
        ("config.json", LLAMA | {"rope_parameters": {"rope_type": "yarn"}}, "take a model without scaled ones"),
        ("tokenizer.json", {}, "tokenizer.json: It is no tokenizer"),
        ("tokenizer_config.json", [], "JSON object"),
        ("tokenizer_config.json", {}, "chat_template must be the text of a template; it is 'None'"),
        ("tokenizer_config.json", {"chat_template": "{% for %}"}, "chat_template is no template"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_value(
    name: str, value: object, problem: str, tmp_path: Path, store: FolderStore
) -> None:
    folder = weights_folder(tmp_path / "weights")
    write(folder, name, value)
    with pytest.raises(PolicyImportError, match=problem):
        bring(folder, store)
    assert not Policy.objects.exists()
    assert list(store.list("policies")) == []


@pytest.mark.parametrize(
    "header",
    [
        [],
        {},
        {"w": 1},
        {"w": {"shape": [2, 3]}},
        {"w": {"shape": 6, "data_offsets": [0, 24]}},
        {"w": {"shape": [2, -3], "data_offsets": [0, 24]}},
        {"w": {"shape": [2, 3], "data_offsets": [0]}},
        {"w": {"shape": [2, 3], "data_offsets": [0, "24"]}},
        {"w": {"shape": [2, 3], "data_offsets": [0, 25]}},
        {"w": {"shape": [2000, 3], "data_offsets": [0, 24]}},
        {"__metadata__": {"format": "pt"}},
    ],
)
def test_damaged_weights_are_refused(header: object, tmp_path: Path, store: FolderStore) -> None:
    folder = weights_folder(tmp_path / "weights")
    write_weights(folder, header, 24)
    with pytest.raises(PolicyImportError, match=r"model\.safetensors: It is damaged"):
        bring(folder, store)


@pytest.mark.parametrize("name", ["", " ", "x" * 121, "a\0b"])
def test_a_name_that_cannot_be_is_refused(name: str, tmp_path: Path, store: FolderStore) -> None:
    with pytest.raises(PolicyImportError, match="cannot be the name of a policy"):
        bring(weights_folder(tmp_path / "weights"), store, name)


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path, store: FolderStore) -> None:
    with pytest.raises(PolicyImportError, match="It is no folder"):
        bring(tmp_path / "nowhere", store)
