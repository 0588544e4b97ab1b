"""Draws one id a row by inverting the distribution: a row's draws depend on its own seed and logits only."""

import torch

_BLOCK = 256


def draw(logits: torch.Tensor, temperatures: torch.Tensor, uniforms: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and their log-probabilities at the sampling temperature, from logits (rows, vocab) in fp32.

    Temperature 0 takes the likeliest id; its log-probability is that of temperature 1.
    """
    scaled = logits / torch.where(temperatures > 0, temperatures, 1.0)[:, None]
    peak, likeliest = scaled.max(-1, keepdim=True)
    weights = (scaled - peak).exp_()
    blocks = _in_blocks(weights)
    # Sums across blocks in fp64: an fp32 running sum over a whole vocabulary would shift draws in the tail.
    block_sums = blocks.sum(-1).double().cumsum(-1)
    total = block_sums[:, -1:]
    goals = uniforms.double()[:, None] * total
    block = (block_sums <= goals).sum(-1, keepdim=True).clamp_(max=blocks.shape[1] - 1)
    before = torch.where(block > 0, block_sums.gather(1, (block - 1).clamp(min=0)), 0.0)
    inside = blocks.gather(1, block[:, :, None].expand(-1, 1, _BLOCK))[:, 0].double()
    offset = ((inside.cumsum(-1) + before) <= goals).sum(-1, keepdim=True)
    last = _BLOCK - 1 - (inside > 0).flip(-1).int().argmax(-1, keepdim=True)
    sampled = block * _BLOCK + torch.minimum(offset, last)
    ids = torch.where(temperatures[:, None] > 0, sampled, likeliest)
    logprobs = scaled.gather(1, ids).double() - peak.double() - total.log()
    return ids[:, 0], logprobs[:, 0].float()


def _in_blocks(weights: torch.Tensor) -> torch.Tensor:
    """(rows, blocks, _BLOCK), padded with zeros that are never drawn."""
    rows, vocab = weights.shape
    if vocab % _BLOCK:
        weights = torch.nn.functional.pad(weights, (0, _BLOCK - vocab % _BLOCK))
    return weights.view(rows, -1, _BLOCK)
