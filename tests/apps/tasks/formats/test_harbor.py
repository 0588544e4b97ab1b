import hashlib
import os
from pathlib import Path

import pytest

from apps.tasks.bundled.families import FAMILIES, make_instance, write_instance
from apps.tasks.formats.errors import TaskFormatError
from apps.tasks.formats.harbor import Resources, WorkspaceFile, read_folder
from tests.apps.tasks.folders import MINIMAL, task_folder


def toml(text: str) -> dict[str, str | None]:
    return {"task.toml": f'schema_version = "1.3"\n{text}\n'}


def test_a_minimal_folder_reads_with_the_defaults(tmp_path: Path) -> None:
    task = read_folder(task_folder(tmp_path))
    assert (task.name, task.family, task.round_limit) == ("lab/greet-7", "greet", 8)
    assert (task.agent_timeout_sec, task.verifier_timeout_sec) == (None, 600.0)
    assert (task.network, task.workdir, task.resources) == ("public", "/app", Resources(None, None, None))
    assert task.workspace == (WorkspaceFile("data/in.txt", "environment/files/data/in.txt", executable=False),)
    assert task.reference_rounds == ("echo hello > out.txt\n",)
    assert task.unknown_keys == ()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_bundled_folder_reads_as_it_was_made(family: str, tmp_path: Path) -> None:
    write_instance(family, 3, tmp_path / "task")
    instance, task = make_instance(family, 3), read_folder(tmp_path / "task")
    assert (task.name, task.family) == (f"assay/{family}-3", family)
    assert (task.instruction, task.round_limit) == (instance.instruction, instance.round_limit)
    assert task.reference_rounds == tuple(f"{command}\n" for command in instance.rounds)
    assert [file.path for file in task.workspace] == sorted(file.path for file in instance.files)
    assert (task.network, task.unknown_keys) == ("no-network", ())
    assert task.resources == Resources(1.0, 256, 32)


def test_the_digest_is_harbors(tmp_path: Path) -> None:
    changes: dict[str, str | None] = {
        "README.md": "hi\n",
        "environment/.hidden": "h\n",
        "tests/__pycache__/x.pyc": "left out",
        "tests/a~": "left out",
        "notes.md": "does not belong",
    }
    folder = task_folder(tmp_path, changes)
    belonging = MINIMAL | {"README.md": "hi\n", "environment/.hidden": "h\n"}
    records = [f"{path}\0{hashlib.sha256(text.encode()).hexdigest()}\n" for path, text in sorted(belonging.items())]
    assert read_folder(folder).digest == hashlib.sha256("".join(records).encode()).hexdigest()


def test_any_change_of_content_or_name_changes_the_digest(tmp_path: Path) -> None:
    changes: list[dict[str, str | None]] = [
        {},
        {"tests/test.sh": "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n"},
        {"tests/more.txt": ""},
        {"environment/files/data/in.txt": None, "environment/files/data/im.txt": "in\n"},
    ]
    folders = [task_folder(tmp_path / str(number), change) for number, change in enumerate(changes)]
    assert len({read_folder(folder).digest for folder in folders}) == 4


def test_canary_lines_are_not_shown_to_the_agent(tmp_path: Path) -> None:
    text = "<!-- CANARY string: do not train -->\n# harbor-canary GUID 123\n\nDo it.\n# canary below stays\n"
    assert read_folder(task_folder(tmp_path, {"instruction.md": text})).instruction == "Do it.\n# canary below stays"


def test_unknown_keys_are_named(tmp_path: Path) -> None:
    text = "shiny = 1\n[metadata]\nvendor_key = 2\n[agent]\ntimeout_sec = 30\npatience = 3\n[surprise]\nx = 1\n"
    task = read_folder(task_folder(tmp_path, toml(text)))
    assert task.unknown_keys == ("agent.patience", "shiny", "surprise")
    assert task.agent_timeout_sec == 30.0


def test_older_spellings_are_read(tmp_path: Path) -> None:
    text = 'version = "1.0"\n[environment]\nmemory = "4G"\nstorage = "512M"\nallow_internet = false\n'
    task = read_folder(task_folder(tmp_path, {"task.toml": f"{text}[metadata]\ntags = ['a']\n"}))
    assert task.resources == Resources(None, 4096, 512)
    assert (task.network, task.keywords, task.name) == ("no-network", ("a",), "task")


def test_our_keys_say_family_and_rounds(tmp_path: Path) -> None:
    task = read_folder(task_folder(tmp_path, toml('[metadata]\nfamily = "f"\nassay_rounds = 2')))
    assert (task.family, task.round_limit) == ("f", 2)


def test_rounds_are_read_in_their_order(tmp_path: Path) -> None:
    rounds: dict[str, str | None] = {"solution/rounds/02.sh": "two", "solution/rounds/01.sh": "one"}
    assert read_folder(task_folder(tmp_path, rounds)).reference_rounds == ("one", "two")
    bare = read_folder(task_folder(tmp_path / "bare", {"solution/solve.sh": None}))
    assert not bare.reference_rounds


@pytest.mark.parametrize("name", ["1.sh", "00.sh", "03.sh", "002.sh", "two.sh"])
def test_rounds_have_two_digits_and_no_gap(name: str, tmp_path: Path) -> None:
    rounds: dict[str, str | None] = {"solution/rounds/01.sh": "one", f"solution/rounds/{name}": "odd"}
    with pytest.raises(TaskFormatError, match=r"rounds are 01\.sh, 02\.sh and so on without a gap"):
        read_folder(task_folder(tmp_path, rounds))


@pytest.mark.parametrize("path", ["task.toml", "instruction.md", "environment/Dockerfile", "tests/test.sh"])
def test_a_missing_file_is_named(path: str, tmp_path: Path) -> None:
    with pytest.raises(TaskFormatError, match="is missing") as caught:
        read_folder(task_folder(tmp_path, {path: None}))
    assert caught.value.path == path
    assert caught.value.way_out


@pytest.mark.parametrize(
    ("text", "field", "problem"),
    [
        ("[task\n", "line 2", "is not TOML"),
        ('[agent]\ntimeout_sec = "long"', "agent.timeout_sec", "Expected `float"),
        ("[agent]\ntimeout_sec = -1", "agent.timeout_sec", "above 0"),
        ("[environment]\nbuild_timeout_sec = 7201", "environment.build_timeout_sec", "at most 7200"),
        ("[environment]\nbuild_timeout_sec = nan", "environment.build_timeout_sec", "at most 7200"),
        ("[agent]\ntimeout_sec = nan", "agent.timeout_sec", "above 0"),
        ("[agent]\ntimeout_sec = true", "agent.timeout_sec", "Expected"),
        ("[task]\nkeywords = ['a', 1]", "task.keywords[1]", "Expected `str`"),
        ('[task]\nname = "no-org"', "task.name", "org/name"),
        ('[task]\nname = "a/b..c"', "task.name", "org/name"),
        ("task = 3", "task", "Expected `object`"),
        ("[metadata]\nassay_rounds = 0", "metadata.assay_rounds", "from 1 to 200"),
        ("[metadata]\nassay_rounds = 2.5", "metadata.assay_rounds", "Expected `int`"),
        ("[environment]\ngpus = 2", "environment.gpus", "GPUs in boxes are not supported"),
        ('[environment]\nos = "windows"', "environment.os", "only linux"),
        ('[environment]\nos = "plan9"', "environment.os", "Invalid enum value"),
        ('[environment]\ndocker_image = "x:1"', "environment.workdir", "is missing beside docker_image"),
        ('[environment]\ndocker_image = "../x"\nworkdir = "/app"', "environment.docker_image", "no name of an image"),
        ('[environment]\ndocker_image = ""\nworkdir = "/app"', "environment.docker_image", "no name of an image"),
        ('[environment]\nworkdir = "/usr/bin/app"', "environment.workdir", "no working folder"),
        ('[environment]\nnetwork_mode = "allowlist"', "environment.allowed_hosts", "must name hosts"),
        ('[environment]\nallowed_hosts = ["pypi.org"]', "environment.allowed_hosts", "none where it is not"),
        ('[environment]\nworkdir = "/usr/src"', "environment.workdir", "no working folder"),
        ('[environment]\nworkdir = "/app/../etc"', "environment.workdir", "no working folder"),
        ('[environment]\nworkdir = "/app/./x"', "environment.workdir", "no working folder"),
        ('[environment]\nmemory = "lots"', "environment.memory", "is not a size"),
        ('[environment.env]\nKEY = "${HOST_KEY}"', "environment.env.KEY", "not handed in"),
        ('[verifier]\nenvironment_mode = "separate"', "verifier.environment_mode", "not supported"),
        ('[[steps]]\nname = "one"', "steps", "several steps"),
        ('[[environment.mcp_servers]]\nname = "m"', "environment.mcp_servers", "MCP servers"),
    ],
)
def test_a_bad_setting_is_named_with_a_way_out(text: str, field: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(TaskFormatError) as caught:
        read_folder(task_folder(tmp_path, toml(text)))
    assert (caught.value.path, caught.value.field) == ("task.toml", field)
    assert problem in str(caught.value)
    assert caught.value.way_out in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        f"x = {'9' * 5000}",
        f"x = {'[' * 3000}",
        f"[environment]\ncpus = 0x{'f' * 5000}",
        f"agent.timeout_sec.{'.'.join('a' * 3000)} = 1",
    ],
    ids=["digits", "nested", "hexadecimal", "dotted"],
)
def test_a_setting_out_of_all_bounds_is_named_by_its_file(text: str, tmp_path: Path) -> None:
    with pytest.raises(TaskFormatError) as caught:
        read_folder(task_folder(tmp_path, toml(text)))
    assert caught.value.path == "task.toml"


def test_a_newer_major_schema_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskFormatError, match=r"only schema 1\.x"):
        read_folder(task_folder(tmp_path, {"task.toml": 'schema_version = "2.0"\n'}))


@pytest.mark.parametrize("text", ["", " \n\n", "<!-- canary -->\n\n"])
def test_an_empty_instruction_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(TaskFormatError, match="is empty"):
        read_folder(task_folder(tmp_path, {"instruction.md": text}))


def test_bytes_that_are_no_text_are_refused_with_their_line(tmp_path: Path) -> None:
    folder = task_folder(tmp_path)
    (folder / "instruction.md").write_bytes(b"fine\n\xff\n")
    with pytest.raises(TaskFormatError, match="line 2") as caught:
        read_folder(folder)
    assert caught.value.path == "instruction.md"


@pytest.mark.parametrize("path", ["task.toml", "tests/link", "environment/files/link", "solution"])
def test_a_link_anywhere_in_the_folder_is_refused(path: str, tmp_path: Path) -> None:
    folder = task_folder(tmp_path, {"solution/solve.sh": None, "task.toml": None})
    (folder / path).symlink_to("/etc")
    with pytest.raises(TaskFormatError) as caught:
        read_folder(folder)
    assert caught.value.path == path


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(task_folder(tmp_path))
    with pytest.raises(TaskFormatError, match="not a link"):
        read_folder(tmp_path / "link")


def test_a_pipe_in_the_folder_is_refused_at_once(tmp_path: Path) -> None:
    folder = task_folder(tmp_path)
    os.mkfifo(folder / "tests" / "pipe")
    with pytest.raises(TaskFormatError, match="special files"):
        read_folder(folder)


def test_a_folder_too_large_is_refused_by_its_apparent_size(tmp_path: Path) -> None:
    folder = task_folder(tmp_path)
    with (folder / "tests" / "big").open("wb") as sparse:
        sparse.truncate(2**40)
    with pytest.raises(TaskFormatError, match="larger than"):
        read_folder(folder)


def test_a_folder_with_too_many_files_is_refused(tmp_path: Path) -> None:
    folder = task_folder(tmp_path)
    for number in range(2_000):
        (folder / "tests" / str(number)).touch()
    with pytest.raises(TaskFormatError, match="more than 2000 files"):
        read_folder(folder)


@pytest.mark.parametrize("path", [".gitignore", "tests/.harborignore"])
def test_ignore_files_are_refused_since_they_change_what_belongs(path: str, tmp_path: Path) -> None:
    with pytest.raises(TaskFormatError, match="ignore files"):
        read_folder(task_folder(tmp_path, {path: "*.txt\n"}))


def test_an_image_that_a_task_names_stands_for_a_dockerfile(tmp_path: Path) -> None:
    named = toml('[environment]\ndocker_image = "lab/tool:1"\nworkdir = "/usr/src/app"')
    task = read_folder(task_folder(tmp_path / "a", named | {"environment/Dockerfile": None}))
    assert (task.dockerfile.base, task.workdir) == ("lab/tool:1", "/usr/src/app")
    assert task.dockerfile.needs_build(task.workdir)
    assert [file.path for file in task.workspace] == ["files/data/in.txt"]


def test_a_dockerfile_beside_a_named_image_says_how_it_was_made(tmp_path: Path) -> None:
    named = toml('[environment]\ndocker_image = "lab/tool:1"\nworkdir = "/app"')
    task = read_folder(task_folder(tmp_path / "a", named | {"environment/Dockerfile": "FROM a AS b\nADD x /y\n"}))
    assert (task.dockerfile.base, task.workspace) == ("lab/tool:1", ())


def test_a_compose_file_needs_docker(tmp_path: Path) -> None:
    with pytest.raises(TaskFormatError, match="needs Docker"):
        read_folder(task_folder(tmp_path, {"environment/docker-compose.yaml": "services: {}\n"}))


def test_the_workspace_is_what_copy_puts_into_the_working_folder(tmp_path: Path) -> None:
    changes: dict[str, str | None] = {"environment/Dockerfile": "FROM x\nWORKDIR /app\nCOPY files/data/ sub/\n"}
    task = read_folder(task_folder(tmp_path, changes))
    assert task.workspace == (WorkspaceFile("sub/in.txt", "environment/files/data/in.txt", executable=False),)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("COPY --link files/ /etc/", "needs Docker: COPY with options is not supported"),
        ("RUN --mount=type=ssh true", "needs Docker: RUN with options is not supported"),
        ("USER agent", "needs Docker: USER is not supported"),
    ],
)
def test_a_dockerfile_that_no_box_can_follow_is_refused_with_its_line(line: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(TaskFormatError, match=problem) as caught:
        read_folder(task_folder(tmp_path, {"environment/Dockerfile": f"FROM x\nWORKDIR /app\n{line}\n"}))
    error = caught.value
    assert (error.path, error.field, error.value) == ("environment/Dockerfile", "line 3", line)


def test_the_environment_is_of_both_files_and_settings_are_stronger(tmp_path: Path) -> None:
    changes = toml('[environment.env]\nB = "3"\n') | {
        "environment/Dockerfile": "FROM x\nWORKDIR /app\nENV A=1 B='2 two'\nENV C some words\n"
    }
    assert dict(read_folder(task_folder(tmp_path, changes)).env) == {"A": "1", "B": "3", "C": "some words"}


def test_a_variable_of_the_host_is_replaced_by_its_default(tmp_path: Path) -> None:
    task = read_folder(task_folder(tmp_path, toml('[verifier.env]\nA = "x${KEY:-one}y"\nB = "${C:-}"\n')))
    assert task.verifier_env == (("A", "xoney"), ("B", ""))
