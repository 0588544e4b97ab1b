"""One policy's weights, merged for sampling, and the shape of its model."""

from dataclasses import dataclass
from pathlib import Path

import msgspec
import torch
from safetensors.torch import load_file

from learner.errors import LearnerError
from learner.manifest import WEIGHTS_NAME, check_file, read_manifest
from learner.serve.linear import Linear

_PLAIN_ROPE = "default"


class WeightsError(LearnerError):
    """The folder holds no weights that this server can sample from."""


class _Rope(msgspec.Struct):
    rope_theta: float | None = None
    rope_type: str | None = None
    type: str | None = None
    """The older name of rope_type."""

    @property
    def kind(self) -> str:
        return self.rope_type or self.type or _PLAIN_ROPE


class _Config(msgspec.Struct):
    """The fields of config.json that sampling needs."""

    model_type: str
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    max_position_embeddings: int
    vocab_size: int
    rms_norm_eps: float
    eos_token_id: int | list[int] | None = None
    head_dim: int | None = None
    rope_theta: float = 10000.0
    rope_scaling: _Rope | None = None
    rope_parameters: _Rope | None = None
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False


@dataclass(frozen=True)
class Shape:
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    context: int
    vocab: int
    rope_theta: float
    eos: frozenset[int]

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_dim

    def kv_bytes(self, dtype: torch.dtype) -> int:
        """Key and value memory of one position."""
        return self.layers * 2 * self.kv_width * dtype.itemsize


@dataclass(frozen=True)
class Layer:
    input_norm: torch.Tensor
    qkv: Linear
    output: Linear
    mlp_norm: torch.Tensor
    gate_up: Linear
    down: Linear


@dataclass(frozen=True)
class Weights:
    shape: Shape
    dtype: torch.dtype
    embedding: torch.Tensor
    head: Linear
    final_norm: torch.Tensor
    layers: tuple[Layer, ...]
    cos: torch.Tensor
    """(context, head_dim)"""
    sin: torch.Tensor


def read_shape(folder: Path) -> Shape:
    path = folder / "config.json"
    try:
        config = msgspec.json.decode(path.read_bytes(), type=_Config)
    except (OSError, msgspec.MsgspecError) as error:
        raise WeightsError(f"{path}: {error}") from error
    known = config.model_type == "llama" and config.hidden_act == "silu"
    if not known or config.attention_bias or config.mlp_bias:
        raise WeightsError(
            f"{path}: the embedded server samples plain llama models only (silu, default rope, no biases); "
            f"this one is {config.model_type!r}. Serve it with vLLM."
        )
    eos = config.eos_token_id
    return Shape(
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=config.head_dim or config.hidden_size // config.num_attention_heads,
        eps=config.rms_norm_eps,
        context=config.max_position_embeddings,
        vocab=config.vocab_size,
        rope_theta=_rope_theta(config, path),
        eos=frozenset([] if eos is None else [eos] if isinstance(eos, int) else eos),
    )


def _rope_theta(config: _Config, path: Path) -> float:
    """Of plain rotary positions; others are refused, for the learner would train what is not sampled here."""
    theta = config.rope_theta
    for field, rope in (("rope_parameters", config.rope_parameters), ("rope_scaling", config.rope_scaling)):
        if rope and rope.kind != _PLAIN_ROPE:
            raise WeightsError(
                f"{path}: {field} has rope_type {rope.kind!r}; the embedded server knows {_PLAIN_ROPE!r} only. "
                "Serve it with vLLM."
            )
        theta = rope.rope_theta if rope and rope.rope_theta is not None else theta
    return theta


def load_weights(folder: Path, dtype: torch.dtype, sha256: str = "") -> tuple[Weights, str]:
    """The weights and their SHA-256. Checks the file against sha256, or else against the folder's manifest."""
    shape = read_shape(folder)
    manifest = read_manifest(folder)
    expected = sha256 or (manifest.weights_sha256 if manifest else "")
    path = folder / WEIGHTS_NAME
    if expected:
        check_file(path, expected)
    elif not path.is_file():
        raise WeightsError(f"{path} is missing")
    try:
        tensors = {name: tensor.to(dtype) for name, tensor in load_file(path).items()}
        return _merge(tensors, shape, dtype), expected
    except KeyError as error:
        raise WeightsError(f"{path}: tensor {error} is missing") from error


def _merge(tensors: dict[str, torch.Tensor], shape: Shape, dtype: torch.dtype) -> Weights:
    layers = []
    for index in range(shape.layers):
        top = f"model.layers.{index}."
        qkv = [tensors[f"{top}self_attn.{part}_proj.weight"] for part in "qkv"]
        gate_up = [tensors[f"{top}mlp.{part}_proj.weight"] for part in ("gate", "up")]
        layers.append(
            Layer(
                input_norm=tensors[f"{top}input_layernorm.weight"].float(),
                qkv=Linear(torch.cat(qkv)),
                output=Linear(tensors[f"{top}self_attn.o_proj.weight"].clone()),
                mlp_norm=tensors[f"{top}post_attention_layernorm.weight"].float(),
                gate_up=Linear(torch.cat(gate_up)),
                down=Linear(tensors[f"{top}mlp.down_proj.weight"].clone()),
            )
        )
    embedding = tensors["model.embed_tokens.weight"].clone()
    head = Linear(tensors["lm_head.weight"].clone() if "lm_head.weight" in tensors else embedding)
    cos, sin = _rope_tables(shape)
    return Weights(shape, dtype, embedding, head, tensors["model.norm.weight"].float(), tuple(layers), cos, sin)


def _rope_tables(shape: Shape) -> tuple[torch.Tensor, torch.Tensor]:
    exponents = torch.arange(0, shape.head_dim, 2).float() / shape.head_dim
    angles = torch.arange(shape.context).float()[:, None] / shape.rope_theta ** exponents[None]
    angles = torch.cat([angles, angles], -1)
    return angles.cos(), angles.sin()
