"""Token in, token out: a policy's tokenizer from the object store, and the growing prompt of one conversation.

The ids that a server sampled are never made from text again.
"""

import hashlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import msgspec
from tokenizers import Tokenizer

from sandbox_worker.chat_template import ChatMessage, ChatTemplate
from sandbox_worker.errors import SandboxWorkerError
from wire.store import MissingObjectError, Store

_KEPT = 4
"""Tokenizers in memory; the versions of one policy share theirs."""
_KEPT_PREFIXES = 10_000


class TokenizerFilesError(SandboxWorkerError):
    """The tokenizer's files are missing or do not say what is needed."""


class _SpecialToken(msgspec.Struct):
    content: str


class _TokenizerConfig(msgspec.Struct):
    """The fields of tokenizer_config.json that are used here; the rest is ignored."""

    eos_token: str | _SpecialToken
    bos_token: str | _SpecialToken | None = None
    pad_token: str | _SpecialToken | None = None
    unk_token: str | _SpecialToken | None = None
    chat_template: str | None = None

    def special_tokens(self) -> dict[str, str]:
        named = {"eos_token": self.eos_token, "bos_token": self.bos_token}
        named |= {"pad_token": self.pad_token, "unk_token": self.unk_token}
        return {name: _content(token) for name, token in named.items() if token is not None}


def _content(token: str | _SpecialToken) -> str:
    return token if isinstance(token, str) else token.content


class ChatTokenizer:
    """One policy's tokenizer and template. Thread-safe."""

    def __init__(self, tokenizer_json: bytes, config_json: bytes, template: str | None = None) -> None:
        try:
            config = msgspec.json.decode(config_json, type=_TokenizerConfig)
            self._tokenizer = Tokenizer.from_buffer(tokenizer_json)
        except (msgspec.MsgspecError, ValueError) as error:
            raise TokenizerFilesError(f"the tokenizer's files cannot be used: {error}") from error
        source = template or config.chat_template
        if not source:
            raise TokenizerFilesError("the tokenizer has no chat template")
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._template = ChatTemplate(source, config.special_tokens())
        self.eos_text = _content(config.eos_token)
        eos_id = self._tokenizer.token_to_id(self.eos_text)
        if eos_id is None:
            raise TokenizerFilesError(f"the tokenizer does not know its own eos token {self.eos_text!r}")
        self.eos_ids: tuple[int, ...] = (eos_id,)
        added = self._tokenizer.get_added_tokens_decoder().values()
        special = sorted((re.escape(t.content) for t in added if t.special), key=len, reverse=True)
        self._special = re.compile("|".join(special)) if special else None

    def render(self, messages: Sequence[ChatMessage]) -> str:
        return self._template.render(messages)

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """What the policy wrote, without special tokens."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def plain(self, text: str) -> str:
        """The text with spelled-out special tokens broken up, so that no file can speak as another role."""
        if self._special is None:
            return text
        return self._special.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)


class TokenChain:
    """The prompt of one conversation as ids: previous ids + sampled ids + ids of the new observation."""

    def __init__(self, tokenizer: ChatTokenizer, *, system: str, instruction: str) -> None:
        self._tokenizer = tokenizer
        self._messages: list[dict[str, str]] = [
            {"role": "system", "content": system},
            {"role": "user", "content": tokenizer.plain(instruction)},
        ]
        self._sent = tokenizer.render(self._messages)
        """The conversation as the template wrote it before the last sample."""
        self._ended = False
        self.new_ids = tokenizer.encode(self._sent)
        """Since the last sample; after a split, the whole new prompt."""
        self.ids = self.new_ids
        self.split = False
        """The last observation broke the chain."""

    def sampled(self, ids: Sequence[int]) -> str:
        """Append a sample exactly as it came; gives its text."""
        text = self._tokenizer.decode(ids)
        self._messages.append({"role": "assistant", "content": self._tokenizer.plain(text)})
        self._ended = bool(ids) and ids[-1] in self._tokenizer.eos_ids
        self.ids = self.ids + tuple(ids)
        return text

    def observed(self, observation: str) -> None:
        """Append what the environment answered. Starts a new chain where the template rewrites the past."""
        so_far = self._sent + self._messages[-1]["content"]
        self._messages.append({"role": "user", "content": self._tokenizer.plain(observation)})
        self._sent = self._tokenizer.render(self._messages)
        self.split = not self._sent.startswith(so_far)
        if self.split:
            self.new_ids = self._tokenizer.encode(self._sent)
            self.ids = self.new_ids
            return
        after = self._sent[len(so_far) :]
        if self._ended:
            after = after.removeprefix(self._tokenizer.eos_text)
        self.new_ids = self._tokenizer.encode(after)
        self.ids = self.ids + self.new_ids


class Tokenizers:
    """Tokenizers by their prefix in the store, kept by the digest of their files: versions share one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._by_digest: OrderedDict[str, ChatTokenizer] = OrderedDict()
        self._digests: OrderedDict[str, str] = OrderedDict()

    def get(self, prefix: str) -> ChatTokenizer:
        """Raises TokenizerFilesError, StoreError."""
        with self._lock:
            digest = self._digests.get(prefix)
            if digest is not None and digest in self._by_digest:
                self._by_digest.move_to_end(digest)
                return self._by_digest[digest]
            return self._load(prefix)

    def _load(self, prefix: str) -> ChatTokenizer:
        base = prefix.rstrip("/")
        tokenizer_json = self._store.get(f"{base}/tokenizer.json")
        config_json = self._store.get(f"{base}/tokenizer_config.json")
        template = self._template(base)
        parts = json.dumps([hashlib.sha256(part).hexdigest() for part in (tokenizer_json, config_json, template)])
        digest = hashlib.sha256(parts.encode()).hexdigest()
        if digest not in self._by_digest:
            self._by_digest[digest] = ChatTokenizer(tokenizer_json, config_json, template.decode() or None)
        self._digests[prefix] = digest
        _shorten(self._by_digest, _KEPT)
        _shorten(self._digests, _KEPT_PREFIXES)
        return self._by_digest[digest]

    def _template(self, base: str) -> bytes:
        """Newer tokenizer folders keep the template in a file of its own."""
        try:
            return self._store.get(f"{base}/chat_template.jinja")
        except MissingObjectError:
            return b""


def _shorten(kept: OrderedDict[str, Any], most: int) -> None:
    while len(kept) > most:
        kept.popitem(last=False)
