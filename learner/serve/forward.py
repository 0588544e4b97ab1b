"""The llama forward pass over static key-value memory: one prompt at once, or one new id for each of many rows.

Key-value memory is (layers, 2, rows, positions, kv_width): a row's prefix is one contiguous block a layer.
"""

import torch
from torch.nn import functional

from learner.serve.weights import Layer, Shape, Weights


def new_memory(weights: Weights, rows: int, positions: int) -> torch.Tensor:
    """Zeros, not whatever was there: attention weighs an unread position with 0, and 0 times NaN is NaN."""
    shape = weights.shape
    return torch.zeros(shape.layers, 2, rows, positions, shape.kv_width, dtype=weights.dtype)


def _norm(x: torch.Tensor, scale: torch.Tensor, weights: Weights) -> torch.Tensor:
    return functional.rms_norm(x.float(), (x.shape[-1],), scale, weights.shape.eps).to(weights.dtype)


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def _project(x: torch.Tensor, layer: Layer, weights: Weights, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotated queries and keys, then values: (tokens, heads + 2 kv_heads, head_dim)."""
    shape = weights.shape
    qkv = layer.qkv(_norm(x, layer.input_norm, weights)).view(len(x), -1, shape.head_dim)
    rotated = shape.heads + shape.kv_heads
    qkv[:, :rotated] = _rotate(qkv[:, :rotated], cos, sin)
    return qkv


def _mix(x: torch.Tensor, attended: torch.Tensor, layer: Layer, weights: Weights) -> torch.Tensor:
    x = x + layer.output(attended)
    gate, up = layer.gate_up(_norm(x, layer.mlp_norm, weights)).chunk(2, -1)
    return x + layer.down(functional.silu(gate) * up)


def _heads_first(memory: torch.Tensor, shape: Shape) -> torch.Tensor:
    """(rows, positions, kv_width) -> (rows, kv_heads, positions, head_dim)."""
    return memory.view(*memory.shape[:2], shape.kv_heads, shape.head_dim).transpose(1, 2)


def prefill(weights: Weights, ids: torch.Tensor, memory: torch.Tensor, done: int) -> torch.Tensor:
    """Reads ids (tokens,) after `done` positions that memory (one row) holds. Logits of the last id: (vocab,)."""
    shape, count = weights.shape, len(ids)
    end = done + count
    cos = weights.cos[done:end, None].to(weights.dtype)
    sin = weights.sin[done:end, None].to(weights.dtype)
    mask = torch.ones(count, end, dtype=torch.bool).tril(done) if done else None
    x = functional.embedding(ids, weights.embedding)
    for index, layer in enumerate(weights.layers):
        qkv = _project(x, layer, weights, cos, sin)
        memory[index, 0, 0, done:end] = qkv[:, shape.heads : shape.heads + shape.kv_heads].flatten(1)
        memory[index, 1, 0, done:end] = qkv[:, shape.heads + shape.kv_heads :].flatten(1)
        attended = functional.scaled_dot_product_attention(
            qkv[None, :, : shape.heads].transpose(1, 2),
            _heads_first(memory[index, 0, :, :end], shape),
            _heads_first(memory[index, 1, :, :end], shape),
            attn_mask=mask,
            is_causal=mask is None,
            enable_gqa=True,
        )
        x = _mix(x, attended[0].transpose(0, 1).reshape(count, -1), layer, weights)
    return weights.head(_norm(x[-1:], weights.final_norm, weights))[0].float()


def decode(weights: Weights, ids: torch.Tensor, positions: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
    """Reads one id a row (rows,) at its own position, for the first rows of memory. Logits: (rows, vocab)."""
    shape, count = weights.shape, len(ids)
    end = int(positions.max()) + 1
    cos = weights.cos[positions, None].to(weights.dtype)
    sin = weights.sin[positions, None].to(weights.dtype)
    visible = torch.arange(end)[None] <= positions[:, None]
    mask = torch.zeros(count, 1, 1, end, dtype=weights.dtype).masked_fill_(~visible[:, None, None], float("-inf"))
    slots = torch.arange(count) * memory.shape[3] + positions
    x = functional.embedding(ids, weights.embedding)
    for index, layer in enumerate(weights.layers):
        qkv = _project(x, layer, weights, cos, sin)
        keys, values = memory[index, 0], memory[index, 1]
        keys.view(-1, shape.kv_width).index_copy_(
            0, slots, qkv[:, shape.heads : shape.heads + shape.kv_heads].reshape(count, -1)
        )
        values.view(-1, shape.kv_width).index_copy_(0, slots, qkv[:, shape.heads + shape.kv_heads :].reshape(count, -1))
        attended = functional.scaled_dot_product_attention(
            qkv[:, : shape.heads].view(count, shape.kv_heads, -1, shape.head_dim),
            _heads_first(keys[:count, :end], shape),
            _heads_first(values[:count, :end], shape),
            attn_mask=mask,
        )
        x = _mix(x, attended.reshape(count, -1), layer, weights)
    return weights.head(_norm(x, weights.final_norm, weights)).float()
