"""Gives memory back that is free but still held."""

import ctypes
from collections.abc import Callable

_trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)


def give_back() -> None:
    """To the system, where the C library can (glibc). Passes of many sizes leave holes that no later one fits into."""
    if _trim:
        _trim(0)
