"""A random llama of two layers with a byte tokenizer, and batches for it."""

import json
import random
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

from learner.messages import Sample, SampleGroup

VOCAB = 320
EOS = 2
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def tiny_policy(folder: Path, *, seed: int = 0, context: int = 256) -> Path:
    """A weights folder as imported: without a manifest."""
    folder.mkdir(parents=True)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=context,
        initializer_range=0.3,
        eos_token_id=EOS,
        bos_token_id=1,
        pad_token_id=EOS,
        tie_word_embeddings=True,
    )
    state = LlamaForCausalLM(config).state_dict()
    state.pop("lm_head.weight")
    save_file({name: tensor.to(torch.bfloat16) for name, tensor in state.items()}, folder / "model.safetensors")
    config.architectures = ["LlamaForCausalLM"]
    config.save_pretrained(folder)
    _write_tokenizer(folder)
    return folder


def _write_tokenizer(folder: Path) -> None:
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: i for i, token in enumerate([*special, *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in special])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"chat_template": TEMPLATE, "eos_token": "<|im_end|>", "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def ids(rng: random.Random, length: int) -> tuple[int, ...]:
    return tuple(rng.randrange(3, VOCAB) for _ in range(length))


def sample(trajectory: int, prompt: tuple[int, ...], rng: random.Random, *, rounds: int = 1) -> Sample:
    """Prompt, then rounds of sampled ids with an observation between them."""
    all_ids = list(prompt)
    trainable = [False] * len(prompt)
    for round_ in range(rounds):
        if round_:
            observation = ids(rng, rng.randint(1, 4))
            all_ids += observation
            trainable += [False] * len(observation)
        sampled = ids(rng, rng.randint(2, 6))
        all_ids += sampled
        trainable += [True] * len(sampled)
    logprobs = tuple(rng.uniform(-7, -3) for _ in range(sum(trainable)))
    return Sample(
        trajectory_id=trajectory,
        ids=tuple(all_ids),
        trainable=tuple(trainable),
        logprobs=logprobs,
        oldest_version=0,
    )


def group(number: int, rewards: tuple[float, ...], rng: random.Random, *, rounds: int = 1) -> SampleGroup:
    prompt = ids(rng, rng.randint(4, 9))
    trajectories = tuple(100 * number + place for place in range(len(rewards)))
    return SampleGroup(
        group_id=number,
        family="tiny",
        samples=tuple(sample(trajectory, prompt, rng, rounds=rounds) for trajectory in trajectories),
        sample_rewards=rewards,
        trajectory_ids=trajectories,
        rewards=rewards,
    )


def groups(seed: int = 0, *, rounds: int = 2) -> tuple[SampleGroup, ...]:
    """Two groups with a signal, a flat one, and a group of one."""
    rng = random.Random(seed)
    rewards = ((1.0, 0.0, 0.0, 1.0), (0.0, 1.0, 0.5), (1.0, 1.0), (1.0,))
    return tuple(group(number, values, rng, rounds=rounds) for number, values in enumerate(rewards, start=1))
