import pytest

from sandbox_worker.protocols.fenced_shell import SYSTEM_PROMPT, Command, GiveUp, Submit, Unfinished, compose, parse


@pytest.mark.parametrize("language", ["", "sh", "bash", "shell"])
def test_one_fenced_block_is_the_command(language: str) -> None:
    assert parse(f"Let me look.\n```{language}\nls -l\necho x\n```\nThen more.", cut=False) == Command(
        "ls -l\necho x\n"
    )


def test_only_the_first_block_runs() -> None:
    assert parse("```sh\none\n```\n```sh\ntwo\n```", cut=False) == Command("one\n")


def test_a_block_of_another_language_is_no_command() -> None:
    assert parse("```python\nprint(1)\n", cut=False) == Submit()


def test_a_message_without_a_block_submits() -> None:
    assert parse("It is done.", cut=False) == Submit()
    assert parse("", cut=False) == Submit()


def test_the_marker_gives_up() -> None:
    assert parse("  GIVE UP: no such tool\n```sh\nls\n```", cut=False) == GiveUp()


def test_an_unclosed_block_counts_if_the_policy_ended_it() -> None:
    assert parse("```sh\nls", cut=False) == Command("ls")


def test_a_message_that_was_cut_does_not_run_and_does_not_submit() -> None:
    assert parse("```sh\nrm -rf build", cut=True) == Unfinished()
    assert parse("I think that", cut=True) == Unfinished()


def test_a_whole_block_in_a_message_that_was_cut_runs() -> None:
    assert parse("```sh\nls\n```\nand so", cut=True) == Command("ls\n")


@pytest.mark.parametrize("script", ["ls\n", "cat <<'E'\n```\nE\n", "echo '````'\n"])
def test_a_composed_message_holds_its_script(script: str) -> None:
    assert parse(compose(script), cut=False) == Command(script)


def test_the_prompt_is_short() -> None:
    assert len(SYSTEM_PROMPT.split()) < 10
