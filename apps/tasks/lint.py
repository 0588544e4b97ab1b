"""Static findings on a task folder: what a reader of its files can already say against it, before anything runs.

Works on folders that cannot be read as a task, too: it looks at text only.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from apps.tasks.formats.harbor import without_canary

Level = Literal["error", "warning"]

SCRIPTS = ("tests/*", "solution/*", "solution/rounds/*", "environment/Dockerfile")
MAX_TEXT_BYTES = 2**20
LARGE_FOLDER_BYTES = 10 * 2**20

NETWORK = re.compile(
    r"\b(curl|wget|uvx|apt-get|apt|git\s+(?:clone|fetch|pull)|(?:pip3?|uv\s+pip|npm|cargo|gem)\s+install)\b"
)
PIP = re.compile(r"\bpip3?\s+install\s+(?P<rest>[^;&|\n]*)")
REWARD = re.compile(r"reward\.(txt|json)")
SECRETS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}\b|\bsk-[A-Za-z0-9_-]{24,}|"
    r"\bhf_[A-Za-z0-9]{30,}\b|\bxox[abp]-[A-Za-z0-9-]{20,}"
)
LEAKED = re.compile(r"(?:^|[\s\"'=./\[])(tests|solution)(?:[/\s\"',\]]|$)")
INTERPRETED = re.compile(
    r"\b(?:bash|dash|sh|zsh|source|python[\d.]*|perl|ruby|node)(?P<options>(?:[\"',\s]+-[\w-]+)*)"
    r"[\"',\s]+(?P<file>[\w./-]*[./][\w./-]*\w)"
)
STARTED = re.compile(
    r"(?:^|[;&|(`!\[]|\b(?:if|then|else|do|while|exec|time|env|run|call)\b|\btimeout\s[^;&|]*?\s)"
    r"[\s(\[]*(?:\.\s+)?[\"']?(?P<file>(?:\./|/)[\w./-]*\w)"
)
WORKDIR = re.compile(r"\s*WORKDIR\s+(/\S*)", re.IGNORECASE)
HTML_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


@dataclass(frozen=True)
class Finding:
    level: Level
    """error: the task cannot be admitted as it is."""
    rule: str
    message: str
    file: str
    line: int | None = None


def lint(folder: Path) -> list[Finding]:
    """Everything found, errors first, then by file and line."""
    found = [finding for rule in RULES for finding in rule(folder)]
    return sorted(found, key=lambda finding: (finding.level, finding.file, finding.line or 0, finding.rule))


def instruction_says_something(folder: Path) -> Iterator[Finding]:
    text = text_of(folder / "instruction.md")
    if text is None:
        yield Finding("error", "no_instruction", "there is no instruction.md", "instruction.md")
    elif not re.search(r"\w{2}", HTML_COMMENT.sub("", without_canary(text))):
        yield Finding("error", "empty_instruction", "the instruction says nothing", "instruction.md")


def image_holds_no_answers(folder: Path) -> Iterator[Finding]:
    for number, line in code_lines(folder, "environment/Dockerfile"):
        if found := LEAKED.search(line):
            message = f"the Dockerfile mentions {found[1]}/: the agent could read it"
            yield Finding("error", "tests_or_solution_in_image", message, "environment/Dockerfile", number)
    for name in ("tests", "solution"):
        if (folder / "environment" / name).exists():
            message = f"environment/ holds a folder {name}: the agent could read it"
            yield Finding("error", "tests_or_solution_in_image", message, f"environment/{name}")


def tests_write_a_reward(folder: Path) -> Iterator[Finding]:
    texts = [text_of(path) or "" for path in sorted((folder / "tests").rglob("*")) if is_plain(path)]
    if text_of(folder / "tests" / "test.sh") is None:
        yield Finding("error", "no_tests", "there is no tests/test.sh", "tests/test.sh")
    elif not any(REWARD.search(text) for text in texts):
        message = "no test writes /logs/verifier/reward.txt or reward.json"
        yield Finding("error", "no_reward_written", message, "tests/test.sh")


def tests_need_no_network(folder: Path) -> Iterator[Finding]:
    for path in scripts(folder, "tests/*.sh"):
        for number, line in code_lines(folder, path):
            if found := NETWORK.search(line):
                message = f"{found[1]} needs the network while grading: bake what it fetches"
                yield Finding("error", "verifier_needs_network", message, path, number)


def tests_run_nothing_of_the_agent(folder: Path) -> Iterator[Finding]:
    workdir = next(
        (found[1] for _, line in code_lines(folder, "environment/Dockerfile") if (found := WORKDIR.match(line))), "/app"
    )
    for path in scripts(folder, "tests/*.sh", "tests/*.py"):
        for number, line in code_lines(folder, path):
            if file := run_below(line, workdir):
                message = f"runs {file}, which the agent may have written: it could write the reward itself"
                yield Finding("warning", "tests_run_agent_code", message, path, number)


def run_below(line: str, workdir: str) -> str:
    """The file of the working folder that a line of a script seems to run; empty without one."""
    for pattern in (INTERPRETED, STARTED):
        for found in pattern.finditer(line):
            inline = {"-c", "-m"} & set(re.findall(r"-[\w-]+", found.groupdict().get("options") or ""))
            if not inline and (found["file"][0] != "/" or found["file"].startswith(f"{workdir.rstrip('/')}/")):
                return found["file"]
    return ""


def there_is_a_solution(folder: Path) -> Iterator[Finding]:
    if text_of(folder / "solution" / "solve.sh") is None and not any((folder / "solution" / "rounds").glob("*.sh")):
        message = "without a solution the task cannot be shown to be solvable"
        yield Finding("warning", "no_solution", message, "solution/solve.sh")


def pip_is_pinned(folder: Path) -> Iterator[Finding]:
    for path in scripts(folder, *SCRIPTS):
        for number, line in code_lines(folder, path):
            for found in PIP.finditer(line):
                if loose := unpinned(found["rest"]):
                    message = f"not pinned: {', '.join(loose)}"
                    yield Finding("warning", "unpinned_pip", message, path, number)


def numbers_of_the_host_do_not_matter(folder: Path) -> Iterator[Finding]:
    for path in scripts(folder, *SCRIPTS):
        for number, line in code_lines(folder, path):
            if re.search(r"\bnproc\b", line):
                message = "nproc may count the host's processors: write a number"
                yield Finding("warning", "bare_nproc", message, path, number)
            if path == "environment/Dockerfile" and "--platform" in line:
                yield Finding("warning", "platform", "--platform ties the image to one machine", path, number)


def holds_no_secret(folder: Path) -> Iterator[Finding]:
    for path in plain_files(folder):
        for number, line in enumerate((text_of(path) or "").splitlines(), start=1):
            if SECRETS.search(line):
                shown = path.relative_to(folder).as_posix()
                yield Finding("error", "secret", "this looks like a real key or token", shown, number)


def holds_only_plain_files(folder: Path) -> Iterator[Finding]:
    total = 0
    for path in everything(folder):
        if not is_plain(path):
            shown = path.relative_to(folder).as_posix()
            yield Finding("error", "not_a_plain_file", "links and special files are refused", shown)
        total += path.lstat().st_size
    if total > LARGE_FOLDER_BYTES:
        yield Finding("warning", "large_folder", f"{total} bytes: each box copies what it needs of it", ".")


RULES = (
    instruction_says_something,
    image_holds_no_answers,
    tests_write_a_reward,
    tests_need_no_network,
    tests_run_nothing_of_the_agent,
    there_is_a_solution,
    pip_is_pinned,
    numbers_of_the_host_do_not_matter,
    holds_no_secret,
    holds_only_plain_files,
)


def unpinned(arguments: str) -> list[str]:
    """Requirements without an exact version; files and local paths are not looked into."""
    words = [word.strip("\"'") for word in arguments.split()]
    takes_value = {
        "-r",
        "-c",
        "-t",
        "-i",
        "--requirement",
        "--constraint",
        "--target",
        "--index-url",
        "--extra-index-url",
    }
    values = {number + 1 for number, word in enumerate(words) if word in takes_value}
    named = [word for number, word in enumerate(words) if number not in values and re.match(r"[A-Za-z]", word)]
    return [word for word in named if "==" not in word and "@" not in word and "/" not in word]


def code_lines(folder: Path, path: str) -> Iterator[tuple[int, str]]:
    """Numbered lines that are not comments."""
    for number, line in enumerate((text_of(folder / path) or "").splitlines(), start=1):
        if not line.lstrip().startswith("#"):
            yield number, line


def scripts(folder: Path, *patterns: str) -> list[str]:
    found = {path for pattern in patterns for path in folder.glob(pattern) if is_plain(path)}
    return sorted(path.relative_to(folder).as_posix() for path in found)


def everything(folder: Path) -> Iterator[Path]:
    """Files and links below the folder; links are never followed."""
    for place, folders, files in os.walk(folder):
        for name in sorted((*folders, *files)):
            path = Path(place) / name
            if path.is_symlink() or name in files:
                yield path


def plain_files(folder: Path) -> Iterator[Path]:
    yield from (path for path in everything(folder) if is_plain(path))


def is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def text_of(path: Path) -> str | None:
    """None where there is no regular file; what is no text, or too long to be a script, reads as empty."""
    if not is_plain(path):
        return None
    if path.lstat().st_size > MAX_TEXT_BYTES:
        return ""
    data = path.read_bytes()
    return "" if b"\0" in data else data.decode(errors="replace")
