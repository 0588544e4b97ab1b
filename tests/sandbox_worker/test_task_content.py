import io
import tarfile

import pytest

from sandbox_worker.task_archive import TaskArchiveError, read_archive
from sandbox_worker.task_content import TaskContent, Tasks, read_task
from tests.sandbox_worker.factories import put_task, tar_of, task_files
from wire.store import FolderStore


def read(files: dict[str, str]) -> TaskContent:
    return read_task(read_archive(tar_of(files)))


def names(content: TaskContent) -> set[str]:
    with tarfile.open(fileobj=io.BytesIO(content.environment)) as archive:
        return {member.name for member in archive if member.isreg()}


def test_a_task_is_split_into_what_each_may_see() -> None:
    content = read(task_files())
    assert (content.instruction, content.workdir) == ("Make a file named done.", "/app")
    assert names(content) == {"words.txt"}
    assert [file.path for file in content.tests] == ["tests/test.sh"]
    assert content.solution == ("touch done\n",)


def test_rounds_of_the_solution_are_preferred_in_order() -> None:
    rounds = {"solution/rounds/02.sh": "two", "solution/rounds/01.sh": "one", "solution/rounds/notes.md": "x"}
    assert read(task_files() | rounds).solution == ("one", "two")


@pytest.mark.parametrize("name", ["1.sh", "00.sh", "03.sh", "002.sh", "two.sh"])
def test_rounds_have_two_digits_and_no_gap(name: str) -> None:
    rounds = {"solution/rounds/01.sh": "one", f"solution/rounds/{name}": "odd"}
    with pytest.raises(TaskArchiveError, match=r"rounds are 01\.sh, 02\.sh and so on"):
        read(task_files() | rounds)


def test_canary_lines_are_not_shown() -> None:
    text = "<!-- canary GUID 1 -->\n# canary: do not train\n\n# Title\nDo it.\n"
    assert read(task_files(instruction_DOTmd=text)).instruction == "# Title\nDo it."


def test_the_last_workdir_and_the_env_are_used() -> None:
    dockerfile = 'FROM base\nENV A=1 B="two words"\nENV C three words\nWORKDIR /srv\nWORKDIR deep\n'
    content = read(task_files(environment__Dockerfile=dockerfile))
    assert content.workdir == "/srv/deep"
    assert dict(content.env) == {"A": "1", "B": "two words", "C": "three words"}


NAMED = '[environment]\ndocker_image = "lab/tool:1"\nworkdir = "/srv"\n'


def test_an_image_that_the_task_names_gets_the_files_in_its_working_folder() -> None:
    content = read(task_files(task_DOTtoml=NAMED, environment__Dockerfile=None))
    assert (content.recipe.dockerfile.base, content.workdir, content.needs_build) == ("lab/tool:1", "/srv", True)
    assert names(content) == {"files/words.txt"}


def test_a_dockerfile_beside_a_named_image_is_not_read() -> None:
    content = read(task_files(task_DOTtoml=NAMED, environment__Dockerfile="HEALTHCHECK none\n"))
    assert (content.recipe.dockerfile.base, content.recipe.dockerfile.steps) == ("lab/tool:1", ())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ('docker_image = "lab/tool:1"', "environment.workdir is missing"),
        ('docker_image = "../../containers/json"\nworkdir = "/srv"', "environment.docker_image is '../../containers"),
        ('docker_image = ["lab"]\nworkdir = "/srv"', "no name of an image"),
        ('docker_image = ""\nworkdir = "/srv"', "no name of an image"),
    ],
)
def test_a_named_image_needs_a_name_and_a_working_folder(settings: str, message: str) -> None:
    with pytest.raises(TaskArchiveError, match=message):
        read(task_files(task_DOTtoml=f"[environment]\n{settings}\n", environment__Dockerfile=None))


@pytest.mark.parametrize(
    ("word", "rest"), [("RUN", "--mount=type=ssh git clone x"), ("COPY", "--link files /etc/x"), ("USER", "nobody")]
)
def test_what_needs_docker_is_refused_with_its_line(word: str, rest: str) -> None:
    dockerfile = f"FROM base\nWORKDIR /app\n\n{word} {rest}\n"
    with pytest.raises(TaskArchiveError, match=rf"^environment/Dockerfile, line 4: needs Docker: {word} "):
        read(task_files(environment__Dockerfile=dockerfile))


@pytest.mark.parametrize(
    ("line", "needed"),
    [("RUN make", True), ("COPY files /etc/x", True), ("COPY files deep", False), ("ENV A=1", False)],
)
def test_only_some_environments_need_an_image(line: str, needed: bool) -> None:
    content = read(task_files(environment__Dockerfile=f"FROM base\nWORKDIR /app\n{line}\n"))
    assert content.needs_build is needed
    assert content.recipe.files["files/words.txt"].data == b"one\ntwo\n"


def test_a_task_may_say_how_long_its_build_may_take() -> None:
    assert read(task_files()).recipe.seconds == 600.0
    assert read(task_files(task_DOTtoml="[environment]\nbuild_timeout_sec = 30\n")).recipe.seconds == 30.0


@pytest.mark.parametrize("value", ["0", "-1", "'long'", "nan", "inf", "1e9"])
def test_a_build_without_a_bound_is_refused(value: str) -> None:
    with pytest.raises(TaskArchiveError, match=r"environment\.build_timeout_sec is .*at most 7200"):
        read(task_files(task_DOTtoml=f"[environment]\nbuild_timeout_sec = {value}\n"))


@pytest.mark.parametrize(
    "files",
    [
        {"environment/docker-compose.yaml": "x"},
        {"environment/.dockerignore": "x"},
        {"environment/Dockerfile": "FROM x\n"},
        {"task.toml": '[environment]\nworkdir = "/"\n'},
        {"task.toml": "x ="},
        {"task.toml": "[environment.env]\nKEY = '${SECRET}'\n"},
        {"instruction.md": "\n"},
    ],
)
def test_what_cannot_be_used_is_refused(files: dict[str, str]) -> None:
    with pytest.raises(TaskArchiveError):
        read(task_files() | files)


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 3000], ids=["digits", "nested"])
def test_settings_out_of_all_bounds_are_named(value: str) -> None:
    with pytest.raises(TaskArchiveError, match=r"^task\.toml: "):
        read(task_files(task_DOTtoml=f"x = {value}\n"))


@pytest.mark.parametrize("missing", ["tests/test.sh", "instruction.md", "task.toml", "environment/Dockerfile"])
def test_a_missing_file_is_named(missing: str) -> None:
    files = task_files()
    del files[missing]
    with pytest.raises(TaskArchiveError, match=missing):
        read(files)


def test_a_default_stands_for_a_value_of_the_host() -> None:
    content = read(task_files(task_DOTtoml="[verifier.env]\nKEY = 'a-${SECRET:-none}'\n"))
    assert dict(content.verifier_env) == {"KEY": "a-none"}


def test_the_cache_is_bounded(store: FolderStore) -> None:
    tasks = Tasks(store, cache_bytes=1000)
    first = put_task(store, task_files(instruction_DOTmd="a" * 600))
    second = put_task(store, task_files(instruction_DOTmd="b" * 600))
    kept = tasks.get(*first)
    assert tasks.get(*first) is kept
    tasks.get(*second)
    assert tasks.get(*first) is not kept
