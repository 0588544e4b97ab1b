"""What an address or a form brings, looked at before the database sees it: text that it can keep, numbers that fit."""

from collections.abc import Mapping

from django.core.exceptions import BadRequest

LONGEST_NUMBER = 18
"""Digits; more fit no column."""


def keepable(text: str) -> bool:
    """PostgreSQL keeps every character but NUL."""
    return "\0" not in text


def text(given: Mapping[str, str], name: str) -> str:
    """Trimmed; empty where there is none. Raises BadRequest."""
    found = given.get(name, "").strip()
    if not keepable(found):
        raise BadRequest(f"{name} holds a NUL character.")
    return found


def number(given: Mapping[str, str], name: str) -> int | None:
    """None for what is no number. Raises BadRequest for one that is too long."""
    found = text(given, name)
    if not found.isdecimal():
        return None
    if len(found) > LONGEST_NUMBER:
        raise BadRequest(f"{name} has more than {LONGEST_NUMBER} digits.")
    return int(found)
