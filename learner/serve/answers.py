"""Bodies of the answers, in OpenAI's and vLLM's form."""

import time
import uuid

from learner.serve.engine import Sampled
from learner.serve.shelf import Served


def completion(served: Served, rows: list[Sampled], prompts: int, logprobs: bool, ids: bool) -> dict[str, object]:
    choices = []
    for index, row in enumerate(rows):
        choice: dict[str, object] = {
            "index": index,
            "text": served.text.decode(row.ids),
            "finish_reason": row.finish,
            "logprobs": _token_logprobs(served, row) if logprobs else None,
        }
        if ids:
            choice |= {"token_ids": row.ids, "prompt_token_ids": row.prompt}
        choices.append(choice)
    return _envelope("cmpl", "text_completion", served, choices, _usage(rows, prompts))


def chat(served: Served, rows: list[Sampled], logprobs: bool, ids: bool) -> dict[str, object]:
    choices = []
    for index, row in enumerate(rows):
        choice: dict[str, object] = {
            "index": index,
            "message": {"role": "assistant", "content": served.text.decode(row.ids)},
            "finish_reason": row.finish,
            "logprobs": {"content": _chat_logprobs(served, row)} if logprobs else None,
        }
        if ids:
            choice["token_ids"] = row.ids
        choices.append(choice)
    body = _envelope("chatcmpl", "chat.completion", served, choices, _usage(rows, 1))
    return body | ({"prompt_token_ids": rows[0].prompt} if ids else {})


def model_card(served: Served) -> dict[str, object]:
    policy = served.policy
    return {
        "id": policy.name,
        "object": "model",
        "created": int(served.loaded_at),
        "owned_by": "assay",
        "root": policy.prefix,
        "digest": policy.digest,
        "max_model_len": policy.weights.shape.context,
    }


def _envelope(
    kind: str, object_: str, served: Served, choices: list[dict[str, object]], usage: dict[str, int]
) -> dict[str, object]:
    return {
        "id": f"{kind}-{uuid.uuid4().hex}",
        "object": object_,
        "created": int(time.time()),
        "model": served.policy.name,
        "choices": choices,
        "usage": usage,
    }


def _token_logprobs(served: Served, row: Sampled) -> dict[str, object]:
    tokens = [served.text.token(id_) for id_ in row.ids]
    return {"tokens": tokens, "token_logprobs": row.logprobs, "top_logprobs": None, "text_offset": []}


def _chat_logprobs(served: Served, row: Sampled) -> list[dict[str, object]]:
    return [
        {"token": served.text.token(id_), "logprob": logprob, "bytes": None, "top_logprobs": []}
        for id_, logprob in zip(row.ids, row.logprobs, strict=True)
    ]


def _usage(rows: list[Sampled], prompts: int) -> dict[str, int]:
    """A prompt counts once however often it is sampled."""
    tries = len(rows) // prompts
    prompt = sum(len(row.prompt) for row in rows[::tries])
    sampled = sum(len(row.ids) for row in rows)
    return {"prompt_tokens": prompt, "completion_tokens": sampled, "total_tokens": prompt + sampled}
