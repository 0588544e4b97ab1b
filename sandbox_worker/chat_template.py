"""A policy's own chat template, rendered in a sandbox: templates come with the weights and are not trusted."""

import json
from collections.abc import Mapping, Sequence
from typing import NoReturn

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from sandbox_worker.errors import SandboxWorkerError

ChatMessage = Mapping[str, str]


class ChatTemplateError(SandboxWorkerError):
    """The template refuses these messages, or is no template."""


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _to_json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


class ChatTemplate:
    """Compiled once; render() may be called from many threads."""

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        self._special_tokens = dict(special_tokens)
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise ChatTemplateError(f"the chat template does not compile: {error}") from error

    def render(self, messages: Sequence[ChatMessage]) -> str:
        """The conversation as text, ready for the policy's next message."""
        try:
            return self._template.render(
                messages=[dict(message) for message in messages], add_generation_prompt=True, **self._special_tokens
            )
        except (jinja2.TemplateError, TypeError, ValueError) as error:
            raise ChatTemplateError(f"the chat template refuses the conversation: {error}") from error
