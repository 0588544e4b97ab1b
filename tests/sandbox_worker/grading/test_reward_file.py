import pytest

from sandbox_worker.grading.reward_file import ForgedRewardError, Reward, RewardFileError, read_reward


@pytest.mark.parametrize(("text", "score"), [("1", 1.0), ("0\n", 0.0), (" 0.5 ", 0.5), ("1e-3", 0.001)])
def test_a_text_holds_one_number(text: str, score: float) -> None:
    assert read_reward(None, text.encode()) == Reward(score)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("pass", "no number"),
        ("1 0", "no number"),
        ("nan", "not finite"),
        ("inf", "not finite"),
        ("-0.1", "not between 0 and 1"),
        ("1.5", "not between 0 and 1"),
        ("1e308", "not between 0 and 1"),
        ("True", "no number"),
    ],
)
def test_any_other_text_is_no_reward(text: str, why: str) -> None:
    with pytest.raises(RewardFileError, match=why):
        read_reward(None, text.encode())


def test_the_other_numbers_of_json_are_metrics() -> None:
    assert read_reward(b'{"reward": 1, "speed": 2.5}', None) == Reward(1.0, {"speed": 2.5})


@pytest.mark.parametrize(("json_file", "text_file"), [(b'{"reward": 1}', b"0"), (b"1", b"1"), (b"", b"")])
def test_two_rewards_are_forged_whatever_they_hold(json_file: bytes, text_file: bytes) -> None:
    with pytest.raises(ForgedRewardError, match="forged reward"):
        read_reward(json_file, text_file)


def test_json_may_be_one_number() -> None:
    assert read_reward(b"0.25", None) == Reward(0.25)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("{", "no JSON"),
        ("[1]", "no number"),
        ('{"score": 1}', "no key 'reward'"),
        ('{"reward": true}', "no number"),
        ('{"reward": "1"}', "no number"),
        ('{"reward": null}', "no number"),
        ('{"reward": {"x": 1}}', "no number"),
        ('{"reward": NaN}', "not finite"),
        ('{"reward": Infinity}', "not finite"),
        ('{"reward": 1e308}', "not between 0 and 1"),
        ('{"reward": 1e999}', "not finite"),
        ('{"reward": -1}', "not between 0 and 1"),
        ('{"reward": 1, "x": "y"}', "no number"),
        ("true", "no number"),
        ("1" + "0" * 400, "not finite"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_any_other_json_is_no_reward(text: str, why: str) -> None:
    with pytest.raises(RewardFileError, match=why):
        read_reward(text.encode(), None)


def test_no_file_is_no_reward() -> None:
    with pytest.raises(RewardFileError, match="neither"):
        read_reward(None, None)
