"""Every family is proven by running it: the reference passes, nothing and a plausible mistake do not."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from apps.tasks.bundled.families import (
    FAMILIES,
    TRAIN_SEEDS,
    Planned,
    default_families,
    default_plan,
    default_seeds,
    make_instance,
    write_instance,
)
from apps.tasks.bundled.folder import FolderNotEmptyError
from apps.tasks.bundled.words import STEMS, WORDS
from tests.apps.tasks.bundled.box import act, grade, reward, workspace

SWEEP = [(family, seed) for family in FAMILIES for seed in (0, 10_001, 20_002)]


def written(family: str, seed: int, place: Path) -> Path:
    task = place / "task"
    write_instance(family, seed, task)
    return task


@pytest.mark.sandbox
@pytest.mark.parametrize(("family", "seed"), SWEEP)
def test_the_reference_passes_and_nothing_and_a_mistake_fail(family: str, seed: int, tmp_path: Path) -> None:
    task, instance = written(family, seed, tmp_path), make_instance(family, seed)
    assert reward(task, tmp_path / "nothing") == "0"
    assert reward(task, tmp_path / "mistake", instance.wrong) == "0"
    assert reward(task, tmp_path / "reference", *instance.rounds) == "1"


@pytest.mark.sandbox
@pytest.mark.parametrize(("family", "seed"), [(f, s) for f, s in SWEEP if FAMILIES[f].rounds == 2])
def test_looking_alone_fails_and_shows_what_the_second_round_needs(family: str, seed: int, tmp_path: Path) -> None:
    task, (look, do) = written(family, seed, tmp_path), make_instance(family, seed).rounds
    app = workspace(task, tmp_path / "looked")
    (seen,) = act(app, (look,))
    assert grade(task, app, tmp_path / "looked") == "0"
    known = seen + (task / "instruction.md").read_text()
    names = re.findall(r'"\./([^"]+)"|"([^"]+)"', do)
    words = [a or b for a, b in names] or [word for word in re.findall(r"[\w.]+", do) if word in STEMS + WORDS]
    assert len(seen) <= 61
    assert all(word in known for word in words), (seen, do)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_solve_script_does_what_the_rounds_do(family: str, tmp_path: Path) -> None:
    task = written(family, 1, tmp_path)
    rounds = [path.read_text() for path in sorted((task / "solution" / "rounds").iterdir())]
    assert (task / "solution" / "solve.sh").read_text() == "#!/bin/bash\n" + "".join(rounds)
    assert len(rounds) == FAMILIES[family].rounds


@pytest.mark.sandbox
def test_a_reward_is_never_written_without_the_checks(tmp_path: Path) -> None:
    task = written("write-word", 0, tmp_path)
    (task / "tests" / "checks.sh").unlink()
    with pytest.raises(FileNotFoundError):
        reward(task, tmp_path / "run")


@pytest.mark.sandbox
@pytest.mark.parametrize(
    "attack",
    [
        "ln -s /tests/test.sh {path}",
        "mkdir -p {path}",
        "printf '{word}\\n\\n' > {path}",
        "printf '{word}\\0' > {path}",
        "echo 1 > /logs/verifier/reward.txt",
    ],
)
def test_what_only_looks_like_the_word_fails(attack: str, tmp_path: Path) -> None:
    task = written("write-word", 0, tmp_path)
    _, word, _, path = make_instance("write-word", 0).rounds[0].split()
    assert reward(task, tmp_path / "run", attack.format(word=word, path=path)) == "0"


@pytest.mark.sandbox
@pytest.mark.parametrize(
    "body",
    [
        "import os; os._exit(0)",
        "open('/tests/test.sh').read()",
        "while True: pass",
        "slow = 3**10**8",
        "getattr(int, chr(95))",
        "@exit\ndef more(): return 1",
        "print([str(n) for n in range(3)])",
        "def {name}(a, b): return True",
    ],
)
def test_code_that_does_not_compute_fails(body: str, tmp_path: Path) -> None:
    task, instance = written("fix-bug", 0, tmp_path), make_instance("fix-bug", 0)
    name = instance.instruction.split()[1]
    path = instance.files[0].path
    command = f"cat >> {path} <<'END'\n{body.format(name=name)}\nEND"
    assert reward(task, tmp_path / "run", *instance.rounds, command) == "0"


@pytest.mark.sandbox
def test_a_decorator_that_would_run_text_is_not_called(tmp_path: Path) -> None:
    """Without a call in it: p returns the text, @exec runs it, and kill(-1) ends the tests before they say 0."""
    task, instance = written("fix-bug", 0, tmp_path), make_instance("fix-bug", 0)
    text = "import os; open('/logs/verifier/reward.txt', 'w').write('1'); os.kill(-1, 9)"
    attack = f'def p(x): return "{text}"\n@exec\n@p\ndef t(a, b): return 1'
    command = f"cat >> {instance.files[0].path} <<'END'\n{attack}\nEND"
    assert reward(task, tmp_path / "attack", *instance.rounds, command) == "0"
    assert reward(task, tmp_path / "plain", *instance.rounds) == "1"


def test_the_families_are_as_many_as_promised() -> None:
    counted = [(family.split_role, family.rounds) for family in FAMILIES.values()]
    assert {pair: counted.count(pair) for pair in set(counted)} == {
        ("trained", 1): 20,
        ("trained", 2): 8,
        ("unseen", 1): 4,
        ("unseen", 2): 2,
    }


def test_no_instance_of_one_split_is_also_in_another() -> None:
    def content(planned: Planned) -> tuple[object, ...]:
        instance = make_instance(planned.family, planned.seed)
        return instance.instruction, instance.files

    plan = default_plan()
    assert len({content(planned) for planned in plan}) == len(plan)
    assert {planned.seed for planned in plan if planned.split == "held-out"}.isdisjoint(TRAIN_SEEDS)


def test_the_default_plan_holds_every_family_in_its_splits() -> None:
    plan = default_plan()
    assert len(plan) == 28 * 24 + 28 * 2 + 6 * 4
    assert {planned.family for planned in plan} == set(FAMILIES)
    assert len(default_families("train")) == len(default_families("held-out")) == 28
    assert default_seeds("unseen") == (20_000, 20_001, 20_002, 20_003)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_instance_is_short_and_one_of_many(family: str) -> None:
    instances = [make_instance(family, seed) for seed in range(300)]
    assert len({(instance.instruction, instance.files) for instance in instances}) >= 297
    assert max(len(instance.instruction.split()) for instance in instances) <= 30
    assert max(len(command) for instance in instances for command in instance.rounds) <= 72
    for instance in instances:
        assert instance.round_limit == FAMILIES[family].rounds
        assert len({file.path for file in instance.files}) == len(instance.files)


def test_no_line_of_the_right_table_is_in_the_other() -> None:
    for seed in range(3000):
        one, two = [
            file.text.split() for file in make_instance("table-lookup", seed).files if file.path.endswith("csv")
        ]
        assert not set(one) & set(two), seed


def test_no_word_holds_another() -> None:
    assert not [(one, two) for one in WORDS for two in WORDS if one != two and one in two]
    assert len(set(WORDS)) == len(WORDS)
    assert not set(WORDS) & set(STEMS)


def test_an_instance_is_the_same_in_every_process() -> None:
    program = (
        "from apps.tasks.bundled.families import *; print([make_instance(f, s) for f in FAMILIES for s in (0, 10000)])"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert printed == {f"{[make_instance(f, s) for f in FAMILIES for s in (0, 10000)]}\n"}


def test_a_folder_with_something_in_it_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    with pytest.raises(FolderNotEmptyError):
        write_instance("write-word", 0, tmp_path)


def test_the_command_writes_the_folders_asked_for(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "apps.tasks.bundled.write", str(tmp_path), "--families", "sort-lines", "--seeds"]
    subprocess.run([*command, "3", "4"], capture_output=True, check=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sort-lines-3", "sort-lines-4"]
