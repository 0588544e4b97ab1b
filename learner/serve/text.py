"""Between text and ids: one policy's own tokenizer and chat template."""

from pathlib import Path

import jinja2
import msgspec
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from learner.errors import LearnerError


class TemplateError(LearnerError):
    """The policy's chat template cannot render these messages."""


class _TokenizerConfig(msgspec.Struct):
    chat_template: str | None = None
    bos_token: object = None
    eos_token: object = None


class Text:
    def __init__(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._config = msgspec.json.decode((folder / "tokenizer_config.json").read_bytes(), type=_TokenizerConfig)
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = _refuse
        self._template = environment.from_string(self._config.chat_template) if self._config.chat_template else None

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: tuple[int, ...]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def token(self, id_: int) -> str:
        return str(self._tokenizer.decode([id_], skip_special_tokens=False))

    def render(self, messages: list[dict[str, str]]) -> str:
        """Raises TemplateError."""
        if self._template is None:
            raise TemplateError("this policy has no chat template")
        special = {"bos_token": _content(self._config.bos_token), "eos_token": _content(self._config.eos_token)}
        try:
            return self._template.render(messages=messages, add_generation_prompt=True, **special)
        except jinja2.TemplateError as error:
            raise TemplateError(f"the chat template refuses these messages: {error}") from error


def _content(token: object) -> str:
    return str(token.get("content", "")) if isinstance(token, dict) else str(token or "")


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)
