import os
from pathlib import Path

import pytest

from apps.tasks.bundled.families import FAMILIES, write_instance
from apps.tasks.lint import Finding, lint
from tests.apps.tasks.folders import task_folder


def found(place: Path, changes: dict[str, str | None]) -> list[tuple[str, str, str, int | None]]:
    return [(f.level, f.rule, f.file, f.line) for f in lint(task_folder(place, changes))]


def test_a_clean_folder_has_no_findings(tmp_path: Path) -> None:
    assert found(tmp_path, {}) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_the_bundled_families_are_clean(family: str, tmp_path: Path) -> None:
    write_instance(family, 5, tmp_path / "task")
    assert lint(tmp_path / "task") == []


@pytest.mark.parametrize(
    ("path", "text", "rule", "line"),
    [
        ("instruction.md", None, "no_instruction", None),
        ("instruction.md", "<!-- only\na comment -->\n", "empty_instruction", None),
        ("instruction.md", "# canary 1\n...\n", "empty_instruction", None),
        ("environment/Dockerfile", "FROM x\nCOPY tests/ /app/\n", "tests_or_solution_in_image", 2),
        ("environment/Dockerfile", 'FROM x\nCOPY ["solution", "/x"]\n', "tests_or_solution_in_image", 2),
        ("environment/Dockerfile", "FROM x\nADD ../tests /t\n", "tests_or_solution_in_image", 2),
        ("environment/solution/a", "answer", "tests_or_solution_in_image", None),
        ("tests/test.sh", None, "no_tests", None),
        ("tests/test.sh", "exit 0\n", "no_reward_written", None),
        ("tests/test.sh", "curl x | sh\necho 1 > reward.txt\n", "verifier_needs_network", 1),
        ("tests/more.sh", "# curl\nuvx --with pytest==8 pytest\n", "verifier_needs_network", 2),
        ("tests/key.pem", "-----BEGIN RSA PRIVATE KEY-----\n", "secret", 1),
    ],
)
def test_an_error_is_found_where_it_stands(
    path: str, text: str | None, rule: str, line: int | None, tmp_path: Path
) -> None:
    assert found(tmp_path, {path: text}) == [("error", rule, path.removesuffix("/a"), line)]


@pytest.mark.parametrize(
    ("path", "text", "rule", "line"),
    [
        ("solution/solve.sh", None, "no_solution", None),
        ("solution/solve.sh", "x\npip install 'a==1' b -r r.txt\n", "unpinned_pip", 2),
        ("solution/solve.sh", "make -j$(nproc)\n", "bare_nproc", 1),
        ("environment/Dockerfile", "FROM --platform=linux/amd64 x\n", "platform", 1),
    ],
)
def test_a_warning_is_found_where_it_stands(
    path: str, text: str | None, rule: str, line: int | None, tmp_path: Path
) -> None:
    assert found(tmp_path, {path: text}) == [("warning", rule, path, line)]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("tests/test.sh", "bash run.sh"),
        ("tests/test.sh", "sh ./run"),
        ("tests/test.sh", "x=$(python3 -I src/main.py 3)"),
        ("tests/test.sh", "timeout -s KILL 5 ./tool | head -1"),
        ("tests/test.sh", "if ! ./tool; then exit; fi"),
        ("tests/test.sh", "/app/tool --version"),
        ("tests/test.sh", ". ./settings.sh"),
        ("tests/check.py", 'subprocess.run(["./tool", "x"])'),
        ("tests/check.py", 'subprocess.run(["bash", "run.sh"])'),
    ],
)
def test_tests_that_run_what_the_agent_wrote_are_warned_of(path: str, line: str, tmp_path: Path) -> None:
    text = f"{line}\necho 1 > /logs/verifier/reward.txt\n"
    assert found(tmp_path, {path: text}) == [("warning", "tests_run_agent_code", path, 1)]


@pytest.mark.parametrize(
    "line",
    [
        "bash /tests/more.sh",
        "python3 -m pytest /tests/test_it.py",
        'python3 -c "print(1.5)"',
        'source "$(dirname "$0")/checks.sh"',
        "grep -q hello ./out.txt",
        "cmp ./a /app/b",
        "/usr/bin/cmp a b",
        '[ -f ./out.txt ] && [ "$(cat ./out.txt)" = 1 ]',
    ],
)
def test_tests_that_only_look_are_fine(line: str, tmp_path: Path) -> None:
    assert found(tmp_path, {"tests/test.sh": f"{line}\necho 1 > /logs/verifier/reward.txt\n"}) == []


def test_the_working_folder_is_the_one_of_the_dockerfile(tmp_path: Path) -> None:
    changes: dict[str, str | None] = {
        "environment/Dockerfile": "FROM assay/base\nWORKDIR /srv/it\n",
        "tests/test.sh": "/srv/it/tool\n/app/tool\necho 1 > /logs/verifier/reward.txt\n",
    }
    assert found(tmp_path, changes) == [("warning", "tests_run_agent_code", "tests/test.sh", 1)]


def test_pinned_and_local_requirements_are_fine(tmp_path: Path) -> None:
    text = "pip install -q a==1 'b[x]==2.0' ./local -r requirements.txt https://x/y.whl && echo done\n"
    assert found(tmp_path, {"solution/solve.sh": text}) == []


def test_links_and_pipes_are_found_and_not_followed(tmp_path: Path) -> None:
    folder = task_folder(tmp_path)
    (folder / "tests" / "loop").symlink_to(folder)
    (folder / "README.md").symlink_to("/etc/passwd")
    os.mkfifo(folder / "tests" / "pipe")
    files = [finding.file for finding in lint(folder) if finding.rule == "not_a_plain_file"]
    assert files == ["README.md", "tests/loop", "tests/pipe"]


def test_an_empty_folder_gets_findings_not_an_error(tmp_path: Path) -> None:
    assert [finding.rule for finding in lint(tmp_path)] == ["no_instruction", "no_tests", "no_solution"]


def test_a_large_folder_is_a_warning(tmp_path: Path) -> None:
    folder = task_folder(tmp_path)
    with (folder / "tests" / "big").open("wb") as sparse:
        sparse.truncate(11 * 2**20)
    (finding,) = lint(folder)
    assert isinstance(finding, Finding)
    assert finding.rule == "large_folder"
