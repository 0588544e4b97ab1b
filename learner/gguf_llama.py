"""Reads a llama GGUF file: the configuration and tokenizer files of a weights folder, and its tensors in bf16."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from learner.errors import LearnerError

_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_TOP_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_CONTROL_TOKEN = 3


class GgufError(LearnerError):
    """The file is no GGUF model of a kind that can be converted."""


class GgufLlama:
    """One open GGUF file of the llama family with a byte-level BPE tokenizer."""

    def __init__(self, path: Path) -> None:
        try:
            self._reader = gguf.GGUFReader(path)
        except (ValueError, IndexError) as error:
            raise GgufError(f"{path} cannot be read as GGUF: {error}") from error
        for key, known in (("general.architecture", "llama"), ("tokenizer.ggml.model", "gpt2")):
            if self._get(key) != known:
                raise GgufError(f"{path}: {key} is {self._get(key)!r}; only {known!r} can be converted")

    def _get(self, key: str, default: object = None) -> object:
        field = self._reader.get_field(key)
        return default if field is None else field.contents()

    def _number(self, key: str) -> int:
        value = self._get(key)
        if not isinstance(value, int):
            raise GgufError(f"GGUF field {key} is missing or no whole number")
        return value

    def _list(self, key: str) -> list[Any]:
        value = self._get(key)
        if not isinstance(value, list):
            raise GgufError(f"GGUF field {key} is missing or no list")
        return value

    def _tokens(self) -> list[str]:
        return self._list("tokenizer.ggml.tokens")

    def _decimal(self, key: str) -> float:
        value = self._get(key)
        if not isinstance(value, float):
            raise GgufError(f"GGUF field {key} is missing or no number")
        return float(f"{value:.6g}")  # the file holds float32: 1e-05, not 9.999999747378752e-06

    @property
    def tied(self) -> bool:
        return all(tensor.name != "output.weight" for tensor in self._reader.tensors)

    def config(self) -> dict[str, object]:
        heads = self._number("llama.attention.head_count")
        width = self._number("llama.embedding_length")
        theta = self._decimal("llama.rope.freq_base")
        return {
            "architectures": ["LlamaForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": self._number("tokenizer.ggml.bos_token_id"),
            "dtype": "bfloat16",
            "eos_token_id": self._number("tokenizer.ggml.eos_token_id"),
            "head_dim": width // heads,
            "hidden_act": "silu",
            "hidden_size": width,
            "initializer_range": 0.02,
            "intermediate_size": self._number("llama.feed_forward_length"),
            "max_position_embeddings": self._number("llama.context_length"),
            "mlp_bias": False,
            "model_type": "llama",
            "num_attention_heads": heads,
            "num_hidden_layers": self._number("llama.block_count"),
            "num_key_value_heads": self._number("llama.attention.head_count_kv"),
            "pad_token_id": self._number("tokenizer.ggml.padding_token_id"),
            "rms_norm_eps": self._decimal("llama.attention.layer_norm_rms_epsilon"),
            "rope_parameters": {"rope_theta": theta, "rope_type": "default"},
            "rope_theta": theta,
            "tie_word_embeddings": self.tied,
            "use_cache": True,
            "vocab_size": self._number("llama.vocab_size"),
        }

    def generation_config(self) -> dict[str, object]:
        config = self.config()
        return {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}

    def tokenizer_config(self) -> dict[str, object]:
        tokens = self._tokens()
        special = {
            f"{name}_token": tokens[self._number(f"tokenizer.ggml.{field}_token_id")]
            for name, field in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
        }
        return {
            "add_bos_token": False,
            "add_prefix_space": False,
            "chat_template": self._get("tokenizer.chat_template", ""),
            "clean_up_tokenization_spaces": False,
            "model_max_length": self._number("llama.context_length"),
            "tokenizer_class": "PreTrainedTokenizerFast",
            **special,
        }

    def special_tokens(self) -> dict[str, str]:
        return {key: str(value) for key, value in self.tokenizer_config().items() if key[3:] == "_token"}

    def tokenizer(self) -> Tokenizer:
        tokens = self._tokens()
        pairs = (pair.partition(" ") for pair in self._list("tokenizer.ggml.merges"))
        merges = [(left, right) for left, _, right in pairs]
        tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        # The "smollm" family splits every digit; GGUF carries that only as this name.
        splits = self._get("tokenizer.ggml.pre") == "smollm"
        digits = [pre_tokenizers.Digits(individual_digits=True)] if splits else []
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*digits, byte_level])
        tokenizer.decoder = decoders.ByteLevel()
        kinds = self._list("tokenizer.ggml.token_type")
        control = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL_TOKEN]
        tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
        return tokenizer

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        heads = self._number("llama.attention.head_count")
        kv_heads = self._number("llama.attention.head_count_kv")
        for tensor in self._reader.tensors:
            values = np.array(gguf.quants.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
            name = _hugging_face_name(tensor.name)
            if name.endswith("q_proj.weight"):
                values = _unpermuted(values, heads)
            elif name.endswith("k_proj.weight"):
                values = _unpermuted(values, kv_heads)
            yield name, torch.from_numpy(np.ascontiguousarray(values)).to(torch.bfloat16)


def _hugging_face_name(name: str) -> str:
    parts = name.split(".")
    if parts[0] == "blk" and len(parts) == 4 and parts[2] in _LAYER_NAMES:
        return f"model.layers.{parts[1]}.{_LAYER_NAMES[parts[2]]}.{parts[3]}"
    if parts[0] in _TOP_NAMES and len(parts) == 2:
        return f"{_TOP_NAMES[parts[0]]}.{parts[1]}"
    raise GgufError(f"GGUF tensor {name} belongs to no llama model")


def _unpermuted(weights: npt.NDArray[np.float32], heads: int) -> npt.NDArray[np.float32]:
    """GGUF interleaves the two halves of each rotary head; the Hugging Face layout keeps them apart."""
    rows, columns = weights.shape
    return weights.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def json_text(value: object) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
