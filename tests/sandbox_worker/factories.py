"""What the sandbox worker's tests are made of: tiny tasks, requests, and a byte-level tokenizer."""

import io
import json
import tarfile
import time
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from sandbox_worker.messages import (
    PolicyCall,
    ResourceProfile,
    RolloutBatch,
    RolloutLimits,
    RolloutRequest,
    Sampling,
    ScriptedCall,
)
from sandbox_worker.task_archive import content_digest, read_archive
from sandbox_worker.tokenization import ChatTokenizer
from wire.store import Store

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' "
    "+ '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
FORGETFUL = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n'}}"
    "{% if message['role'] == 'assistant' and not loop.last %}{{ '(earlier)' + message['content'][6:] }}"
    "{% else %}{{ message['content'] }}{% endif %}{{ '<|im_end|>\\n' }}{% endfor %}{{ '<|im_start|>assistant\\n' }}"
)
"""Rewrites what an assistant said as soon as it is history."""

PASS_IF_DONE = "[ -f done ] && echo 1 >/logs/verifier/reward.txt || echo 0 >/logs/verifier/reward.txt\n"


def tokenizer_json() -> bytes:
    """One id a byte, after the special tokens: no merges."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate((*SPECIAL, *alphabet))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL))
    return tokenizer.to_str().encode()


def tokenizer_config(template: str = CHATML) -> bytes:
    return json.dumps({"eos_token": "<|im_end|>", "bos_token": "<|im_start|>", "chat_template": template}).encode()


def chat_tokenizer(template: str = CHATML) -> ChatTokenizer:
    return ChatTokenizer(tokenizer_json(), tokenizer_config(template))


def put_tokenizer(store: Store, prefix: str = "policies/small", template: str = CHATML) -> str:
    store.put(f"{prefix}/tokenizer.json", tokenizer_json())
    store.put(f"{prefix}/tokenizer_config.json", tokenizer_config(template))
    return prefix


def task_files(**changes: str | None) -> dict[str, str]:
    """A task that is solved by a file named done; keywords name files with __ for / and _DOT for a dot."""
    files: dict[str, str | None] = {
        "task.toml": 'schema_version = "1.3"\n',
        "instruction.md": "Make a file named done.\n",
        "environment/Dockerfile": "FROM base\nWORKDIR /app\nCOPY files/ /app/\n",
        "environment/files/words.txt": "one\ntwo\n",
        "tests/test.sh": PASS_IF_DONE,
        "solution/solve.sh": "touch done\n",
    }
    files |= {name.replace("__", "/").replace("_DOT", "."): text for name, text in changes.items()}
    return {name: text for name, text in files.items() if text is not None}


def tar_of(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


def put_task(store: Store, files: dict[str, str] | None = None) -> tuple[str, str]:
    """The key and the digest of a task in the store."""
    data = tar_of(task_files() if files is None else files)
    digest = content_digest(read_archive(data))
    store.put(f"tasks/{digest}.tar", data)
    return f"tasks/{digest}.tar", digest


def limits(**changes: Any) -> RolloutLimits:
    return RolloutLimits(**{"rounds": 3, "context_tokens": 4000, "round_tokens": 400} | changes)


def policy_call(url: str, **changes: Any) -> PolicyCall:
    values: dict[str, Any] = {
        "url": url,
        "model": "7@3",
        "version": 3,
        "tokenizer_prefix": "policies/small",
        "sampling": Sampling(seed=5),
    }
    return PolicyCall(**values | changes)


def rollout_request(
    task: tuple[str, str], policy: PolicyCall | ScriptedCall | None = None, **changes: Any
) -> RolloutRequest:
    values: dict[str, Any] = {
        "rollout_id": 1,
        "run_id": 7,
        "attempt": 1,
        "fence": 1,
        "deadline": time.time() + 120,
        "task_key": task[0],
        "task_digest": task[1],
        "policy": ScriptedCall(script="reference") if policy is None else policy,
        "limits": limits(),
        "profile": ResourceProfile(),
    }
    return RolloutRequest(**values | changes)


def batch_of(*requests: RolloutRequest, **changes: Any) -> RolloutBatch:
    values: dict[str, Any] = {
        "run_id": 7,
        "requests": requests,
        "write_prefix": "outcomes/7",
        "reply_job": "trajectories.segment_ready",
        "reply_queue": "control",
    }
    return RolloutBatch(**values | changes)


def fenced(script: str) -> str:
    return f"```sh\n{script}\n```"
