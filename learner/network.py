"""The trained network: loaded from a weights folder, read at the places that are learned from."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from transformers import AutoModelForCausalLM
from transformers.utils import logging as transformers_logging

from learner.errors import LearnerError
from learner.pack import Pack

_EAGER_IDS = 512
_MULTIPLE = 32
"""Of ids in a pass: oneDNN writes new code for every size that it meets, and keeps it."""
_quiet: Callable[[], None] = transformers_logging.disable_progress_bar
_quiet()


class NetworkError(LearnerError):
    """The folder holds no network that can be trained."""


class Network:
    """A causal language model without dropout, in the dtype that it computes in."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        try:
            loaded: Any = AutoModelForCausalLM
            self.module: Any = loaded.from_pretrained(
                folder, dtype=dtype, attn_implementation="sdpa", local_files_only=True
            )
        except (OSError, ValueError, KeyError) as error:
            raise NetworkError(f"{folder}: {error}") from error
        self.module.eval()  # nothing here behaves differently in training, and no dropout may come in
        self.module.requires_grad_(True)
        self.dtype = dtype

    @property
    def vocab(self) -> int:
        return int(self.module.config.vocab_size)

    def hidden(self, pack: Pack) -> torch.Tensor:
        """Last hidden states at the pack's sources: (S, width)."""
        # Fused attention with a dense mask is slow on CPU; the plain one keeps all scores: fine while they are few.
        self.module.set_attn_implementation("eager" if len(pack.ids) <= _EAGER_IDS else "sdpa")
        unused = -len(pack.ids) % _MULTIPLE
        output = self.module.base_model(
            input_ids=torch.tensor([[*pack.ids, *[0] * unused]]),
            position_ids=torch.tensor([[*pack.positions, *[0] * unused]]),
            attention_mask=pack.mask(self.dtype, unused),
            use_cache=False,
        )
        states: torch.Tensor = output.last_hidden_state[0]
        return states[torch.tensor(pack.sources)]

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """(S, width) -> (S, vocab), fp32."""
        unused = -len(hidden) % _MULTIPLE
        logits: torch.Tensor = self.module.get_output_embeddings()(functional.pad(hidden, (0, 0, 0, unused)))
        return logits[: len(hidden)].float()

    def tensors(self) -> dict[str, torch.Tensor]:
        """What a weights folder stores, in bf16: a tied output head is not stored twice."""
        state: dict[str, torch.Tensor] = self.module.state_dict()
        if self.module.config.tie_word_embeddings:
            state.pop("lm_head.weight", None)
        return {name: tensor.detach().to(torch.bfloat16).contiguous() for name, tensor in sorted(state.items())}
