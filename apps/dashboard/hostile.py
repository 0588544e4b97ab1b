"""Text that a model or a task wrote, made safe to look at: what does not print is shown, never obeyed.

Escaping of HTML stays with the template; this takes care of what HTML lets through: terminal controls, direction
overrides, invisible characters.
"""

import re
import unicodedata

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_KEPT = frozenset("\n\t")
_INVISIBLE = frozenset("\u200b\u200c\u200d\u2060\ufeff\u00ad")
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})

LONGEST = 16_000


def _shown(character: str) -> str:
    if character in _KEPT:
        return character
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    if character in _INVISIBLE or unicodedata.category(character) in _HIDDEN_CATEGORIES:
        return f"\u27e8U+{code:04X}\u27e9"
    return character


def visible(text: str) -> str:
    """Colour codes go; every other control or invisible character stands there as a sign."""
    plain = _ANSI.sub("", text.replace("\r\n", "\n"))
    return "".join(map(_shown, plain))


def cut(text: str, longest: int = LONGEST) -> tuple[str, int]:
    """Head and tail of a long text, and how many characters are left out between them."""
    if len(text) <= longest:
        return text, 0
    half = longest // 2
    return f"{text[:half]}\n\u2026\n{text[-half:]}", len(text) - 2 * half
