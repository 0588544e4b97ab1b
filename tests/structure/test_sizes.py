"""Modules and functions stay small, and are named for what they do."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("apps", "controlplane", "sandbox_worker", "learner", "wire")
MODULE_LINES = 400
FUNCTION_LINES = 60
ROLES = re.compile(r"utils?|helpers?|common|services?|managers?|misc")
SAYS_WHY_IT_IS_LONG = re.compile(r"\blong\b", re.IGNORECASE)
"""In the first line of a module that is better long."""


def modules() -> Iterator[Path]:
    """What git knows or would take, without what Django writes."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    for name in sorted(set(listed.stdout.split("\0")) - {""}):
        path = ROOT / name
        if "migrations" not in path.parts and path.exists():
            yield path


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def long_functions(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                yield f"{shown(path)}:{node.lineno} {node.name} has {lines} lines"


def test_modules_have_at_most_400_lines_or_say_why_in_the_first() -> None:
    found = []
    for path in modules():
        lines = path.read_text().splitlines()
        if len(lines) > MODULE_LINES and not SAYS_WHY_IT_IS_LONG.search(lines[0]):
            found.append(f"{shown(path)} has {len(lines)} lines")
    assert found == []


def test_functions_have_at_most_60_lines() -> None:
    assert [line for path in modules() for line in long_functions(path)] == []


def test_modules_are_named_for_a_noun_or_a_verb_and_not_for_a_role() -> None:
    assert [shown(path) for path in modules() if any(ROLES.fullmatch(part) for part in (path.stem, *path.parts))] == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_first_line_of_a_module_says_what_it_is_for(program: str) -> None:
    programs = [path for path in modules() if path.is_relative_to(ROOT / program) and path.read_text().strip()]
    assert programs
    assert [shown(path) for path in programs if not path.read_text().startswith(('"""', "#!"))] == []
