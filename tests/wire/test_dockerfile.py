import pytest

from wire.dockerfile import DockerfileError, Run, placed, read_dockerfile

NAMES = {"Dockerfile", "files/words.txt", "files/data/in.txt"}


def landed(copies: str) -> dict[str, str]:
    """By their paths in /app, the files of environment/ that these lines put there."""
    return placed(read_dockerfile(f"FROM x\nWORKDIR /app\n{copies}\n").copies, "/app", NAMES)


def test_the_subset_is_read() -> None:
    parsed = read_dockerfile(
        "# syntax=docker/dockerfile:1\n\nfrom debian:12\nWORKDIR /srv\nWORKDIR work\nUSER root\n"
        'LABEL a="b $c"\nENV X=1 \\\n    # a comment between\n    Y=2\nCOPY a b sub/\n'
    )
    assert (parsed.base, parsed.workdir) == ("debian:12", "/srv/work")
    assert parsed.env == (("X", "1"), ("Y", "2"))
    (copy,) = parsed.copies
    assert (copy.sources, copy.target, copy.into_folder) == (("a", "b"), "/srv/work/sub", True)
    assert copy.instruction.line == 11


@pytest.mark.parametrize("workdir", ["/app", "//app", '"/app"', "'/app/'", "/srv/../app", "\t/app \t", "app\r"])
def test_a_working_folder_is_one_path_however_it_is_written(workdir: str) -> None:
    assert read_dockerfile(f"FROM x\nWORKDIR {workdir}\n").workdir == "/app"


@pytest.mark.parametrize(
    ("line", "env"),
    [
        ('A=1 B="two words"', {"A": "1", "B": "two words"}),
        ("A=1\t B='x\ty'", {"A": "1", "B": "x\ty"}),
        ("A three  plain words", {"A": "three  plain words"}),
        ("A=1 \\  \n\n  B=2", {"A": "1", "B": "2"}),
        ("A=1\\\n2", {"A": "12"}),
        ("A= B=x=y", {"A": "", "B": "x=y"}),
        ("A=1\nENV A=2", {"A": "2"}),
    ],
)
def test_the_environment_is_read_as_docker_does(line: str, env: dict[str, str]) -> None:
    assert dict(read_dockerfile(f"FROM x\nENV {line}\n").env) == env


@pytest.mark.parametrize(
    ("user", "as_root"),
    [("root", True), ("0", True), ("root:root", True), ("0:0", True), ("1000", False), ("1000:1000", False)],
)
def test_the_users_that_a_box_has_may_be_named(user: str, as_root: bool) -> None:
    assert read_dockerfile(f"FROM x\nUSER {user}\n").as_root is as_root


def test_a_command_is_run_where_and_as_the_lines_before_it_say() -> None:
    text = 'FROM x\nRUN a && \\\n  b $HOME\nENV A=1\nWORKDIR /app\nUSER 1000\nRUN ["b", "$A"]\nENV A=2\n'
    first, last = (step for step in read_dockerfile(text).steps if isinstance(step, Run))
    assert (first.command, first.workdir, first.env, first.as_root) == (
        ("/bin/sh", "-c", "a &&   b $HOME"),
        "/",
        (),
        True,
    )
    assert (last.command, last.workdir, last.env, last.as_root) == (("b", "$A"), "/app", (("A", "1"),), False)


@pytest.mark.parametrize("text", ["[ -f a ]", "[1]", "[[ a == a ]]"])
def test_what_is_no_list_of_texts_is_a_line_for_the_shell(text: str) -> None:
    (run,) = read_dockerfile(f"FROM x\nRUN {text}\n").steps
    assert isinstance(run, Run)
    assert run.command == ("/bin/sh", "-c", text)


@pytest.mark.parametrize(
    ("lines", "needed"),
    [
        ("COPY files/ /app/", False),
        ("COPY files/ /app/deep/", False),
        ("WORKDIR /srv\nWORKDIR /app", False),
        ("USER 1000\nENV A=1", False),
        ("RUN true", True),
        ("COPY files/ /opt/", True),
        ("COPY files/ /app/../opt/", True),
        ("COPY files/ /", True),
    ],
)
def test_only_what_reaches_beyond_the_working_folder_needs_a_build(lines: str, needed: bool) -> None:
    assert read_dockerfile(f"FROM x\nWORKDIR /app\n{lines}\n").needs_build("/app") is needed


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("FROM x\nRUN --mount=type=cache,target=/c true\n", 2, "RUN"),
        ("FROM x\nRUN <<EOF\ntrue\nEOF\n", 2, "RUN"),
        ("FROM x\nRUN cat <<-'EOF' >a\nhi\nEOF\n", 2, "RUN"),
        ("FROM x\nRUN\n", 2, "RUN"),
        ("FROM x\nRUN []\n", 2, "RUN"),
        ('FROM x\nRUN ["a\\u0000"]\n', 2, "RUN"),
        ('FROM x\nRUN ["a\\ud800"]\n', 2, "RUN"),
        ("FROM x\n\n# y\nADD a /app/\n", 4, "ADD"),
        ("FROM x AS build\n", 1, "FROM"),
        ("FROM --platform=linux/amd64 x\n", 1, "FROM"),
        ("FROM x\nFROM y\n", 2, "FROM"),
        ("ARG V=1\nFROM x\n", 1, "ARG"),
        ("FROM $BASE\n", 1, "FROM"),
        ("FROM x\nUSER agent\n", 2, "USER"),
        ("FROM x\nUSER\n", 2, "USER"),
        ("FROM x\nCOPY --from=y /a /b\n", 2, "COPY"),
        ("FROM x\nCOPY --chown=1:1 a /app/\n", 2, "COPY"),
        ("FROM x\nCOPY *.txt /app/\n", 2, "COPY"),
        ("FROM x\nCOPY <<EOF /app/a\nhi\nEOF\n", 2, "COPY"),
        ("FROM x\nCOPY a\n", 2, "COPY"),
        ("FROM x\nCOPY a b /app\n", 2, "COPY"),
        ("FROM x\nCOPY 'a /app\n", 2, "COPY"),
        ("FROM x\nCOPY [1, 2]\n", 2, "COPY"),
        (f"FROM x\nCOPY {'[' * 5000}\n", 2, "COPY"),
        ('FROM x\nCOPY ["a", "\\ud800"]\n', 2, "COPY"),
        ("FROM x\nENV A=$B\n", 2, "ENV"),
        ("FROM x\nENV A='b\n", 2, "ENV"),
        ("FROM x\nENV A 'b c'\n", 2, "ENV"),
        ("FROM x\nENV A=1 B\n", 2, "ENV"),
        ("FROM x\nENV =1\n", 2, "ENV"),
        ("FROM x\nENV A=\0\n", 2, "ENV"),
        ("FROM x\nENV\n", 2, "ENV"),
        ('FROM x\nENTRYPOINT ["sh"]\n', 2, "ENTRYPOINT"),
        ("FROM x\nWORKDIR\n", 2, "WORKDIR"),
        ("FROM x\nWORKDIR /a b\n", 2, "WORKDIR"),
    ],
)
def test_what_needs_a_build_is_named_with_its_line(text: str, line: int, word: str) -> None:
    with pytest.raises(DockerfileError, match=rf"environment/Dockerfile, line {line}: needs Docker: {word} ") as caught:
        read_dockerfile(text)
    assert caught.value.line == line
    assert caught.value.instruction.startswith(word)


def test_a_file_without_from_is_refused() -> None:
    with pytest.raises(DockerfileError, match=r"there is no FROM$"):
        read_dockerfile("# nothing\n")


@pytest.mark.parametrize(
    ("copies", "found"),
    [
        ("COPY . .", NAMES),
        ("COPY files/ /app/", {"words.txt", "data/in.txt"}),
        ("COPY files .", {"words.txt", "data/in.txt"}),
        ("COPY ./files/data /app/sub", {"sub/in.txt"}),
        ("WORKDIR sub\nCOPY /files/data ..", {"in.txt"}),
        ("COPY files/words.txt data/", {"data/words.txt"}),
        ("COPY files/words.txt list", {"list"}),
        ("COPY files/words.txt /app", {"words.txt"}),
        ("COPY files/words.txt '/app/a b'", {"a b"}),
        ('COPY ["files/words.txt", "Dockerfile", "/app/a b/"]', {"a b/words.txt", "a b/Dockerfile"}),
        ("COPY files/words.txt Dockerfile .", {"words.txt", "Dockerfile"}),
        ("COPY files/data/ \\\n  /app/in/", {"in/in.txt"}),
        ("COPY\tfiles/words.txt\tlist", {"list"}),
        ("COPY files/ /etc/", set()),
        ("COPY files/ /application/", set()),
        ("COPY files/ /app/../etc/", set()),
        ("COPY files/ /", set()),
        ("", set()),
    ],
)
def test_copies_land_where_docker_would_put_them(copies: str, found: set[str]) -> None:
    assert set(landed(copies)) == found


def test_a_later_copy_wins() -> None:
    assert landed("COPY Dockerfile list\nCOPY files/words.txt list") == {"list": "files/words.txt"}


@pytest.mark.parametrize(
    ("copies", "problem"),
    [
        ("COPY nothing/ /etc/", "names nothing/, which is not in environment/"),
        ("COPY nothing/ /app/", "names nothing/, which is not in environment/"),
        ("COPY ../tests/ /app/", r"names \.\./tests/, which is not in environment/"),
        ("COPY Dockerfile /app/data\nCOPY files/ /app/", "makes data, which another COPY makes a folder"),
    ],
)
def test_a_copy_that_cannot_be_made_is_refused(copies: str, problem: str) -> None:
    with pytest.raises(DockerfileError, match=f"line 3: .*{problem}"):
        landed(copies)
