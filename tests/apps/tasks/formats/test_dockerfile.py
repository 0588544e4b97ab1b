import pytest

from apps.tasks.formats.dockerfile import Copy, parse_dockerfile
from apps.tasks.formats.errors import TaskFormatError


def test_the_subset_is_read() -> None:
    parsed = parse_dockerfile(
        "# syntax=docker/dockerfile:1\n\nfrom debian:12\nWORKDIR /srv\nWORKDIR work\nUSER agent\n"
        'LABEL a="b c"\nENV X=1 \\\n    # a comment between\n    Y=2\nCOPY a b sub/\n'
    )
    assert (parsed.base, parsed.workdir, parsed.user) == ("debian:12", "/srv/work", "agent")
    assert (parsed.labels, parsed.env) == ((("a", "b c"),), (("X", "1"), ("Y", "2")))
    assert parsed.copies == (Copy(("a", "b"), "/srv/work/sub/", 11),)


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("FROM x\nRUN apt-get update \\\n && true\n", 2, "RUN"),
        ("FROM x\n\n# y\nADD a /app/\n", 4, "ADD"),
        ("FROM x AS build\n", 1, "FROM"),
        ("FROM --platform=linux/amd64 x\n", 1, "FROM"),
        ("FROM x\nFROM y\n", 2, "FROM"),
        ("ARG V=1\nFROM x\n", 1, "ARG"),
        ("FROM $BASE\n", 1, "FROM"),
        ("FROM x\nCOPY --from=y /a /b\n", 2, "COPY"),
        ("FROM x\nCOPY --chown=1:1 a /app/\n", 2, "COPY"),
        ("FROM x\nCOPY *.txt /app/\n", 2, "COPY"),
        ("FROM x\nCOPY <<EOF /app/a\nhi\nEOF\n", 2, "COPY"),
        ("FROM x\nCOPY a\n", 2, "COPY"),
        ("FROM x\nCOPY a b /app\n", 2, "COPY"),
        ("FROM x\nCOPY [1, 2]\n", 2, "COPY"),
        ("FROM x\nENV A=$B\n", 2, "ENV"),
        ("FROM x\nENV A='b\n", 2, "ENV"),
        ('FROM x\nENTRYPOINT ["sh"]\n', 2, "ENTRYPOINT"),
        ("FROM x\nWORKDIR\n", 2, "WORKDIR"),
    ],
)
def test_what_needs_a_build_is_named_with_its_line(text: str, line: int, word: str) -> None:
    with pytest.raises(TaskFormatError, match="needs Docker") as caught:
        parse_dockerfile(text)
    assert caught.value.field == f"line {line}"
    assert str(caught.value.value).startswith(word)


def test_a_file_without_from_is_refused() -> None:
    with pytest.raises(TaskFormatError, match="no FROM"):
        parse_dockerfile("# nothing\n")
