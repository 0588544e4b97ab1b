"""The number that a task's own tests wrote, read strictly: anything but one finite number in [0, 1] is no verdict."""

import json
import math
from dataclasses import dataclass, field

from sandbox_worker.errors import SandboxWorkerError
from sandbox_worker.observation import recordable

MOST_BYTES = 64 * 2**10
_MOST_METRICS = 100


class RewardFileError(SandboxWorkerError):
    """There is no reward; says which file and why."""


class ForgedRewardError(SandboxWorkerError):
    """There are two rewards: a program that the tests ran may have written one of them."""


@dataclass(frozen=True)
class Reward:
    score: float
    metrics: dict[str, float] = field(default_factory=dict)


def read_reward(json_file: bytes | None, text_file: bytes | None) -> Reward:
    """Of the one file that is there. Raises RewardFileError, or ForgedRewardError for two."""
    if json_file is not None and text_file is not None:
        raise ForgedRewardError("forged reward: there are both reward.json and reward.txt, and tests write one")
    if json_file is not None:
        return _from_json(json_file)
    if text_file is not None:
        return Reward(_in_range("reward.txt", _number_in_text(text_file)))
    raise RewardFileError("the tests wrote neither reward.json nor reward.txt")


def _number_in_text(data: bytes) -> float:
    text = data.decode("utf-8", "replace").strip()
    if not text:
        raise RewardFileError("reward.txt is empty")
    try:
        return float(text)
    except ValueError:
        raise RewardFileError(f"reward.txt holds no number: {text[:80]!r}") from None


def _from_json(data: bytes) -> Reward:
    if not data.strip():
        raise RewardFileError("reward.json is empty")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RewardFileError(f"reward.json is no JSON: {error}") from error
    values = value if isinstance(value, dict) else {"reward": value}
    if "reward" not in values:
        raise RewardFileError("reward.json has no key 'reward'")
    if len(values) > _MOST_METRICS:
        raise RewardFileError(f"reward.json has more than {_MOST_METRICS} keys")
    numbers = {recordable(name): _number_in_json(name, number) for name, number in values.items()}
    score = _in_range("reward.json", numbers.pop("reward"))
    return Reward(score, numbers)


def _number_in_json(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RewardFileError(f"reward.json: {name[:80]!r} is no number: {str(value)[:80]!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise RewardFileError(f"reward.json: {name[:80]!r} is not finite")
    return number


def _in_range(file: str, number: float) -> float:
    if not math.isfinite(number):
        raise RewardFileError(f"{file} holds {number}, which is not finite")
    if not 0.0 <= number <= 1.0:
        raise RewardFileError(f"{file} holds {number}, which is not between 0 and 1")
    return number
