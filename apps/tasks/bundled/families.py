"""The registry of the bundled families, and the one way to write an instance of one."""

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal

from apps.tasks.bundled.folder import write_folder
from apps.tasks.bundled.instance import Instance, Maker
from apps.tasks.bundled.one_round import ONE_ROUND
from apps.tasks.bundled.two_rounds import TWO_ROUNDS
from apps.tasks.bundled.unseen import UNSEEN_ONE_ROUND, UNSEEN_TWO_ROUNDS

Split = Literal["train", "held-out", "unseen"]
SplitRole = Literal["trained", "unseen"]

TRAIN_SEEDS = tuple(range(24))
HELD_OUT_SEEDS = (10_000, 10_001)
UNSEEN_SEEDS = (20_000, 20_001, 20_002, 20_003)


@dataclass(frozen=True)
class Family:
    name: str
    title: str
    rounds: int
    """Of the reference; also the limit that the task states."""
    split_role: SplitRole
    make: Maker


@dataclass(frozen=True)
class Planned:
    """One instance of the default task set."""

    split: Split
    family: str
    seed: int


def registered(rounds: int, role: SplitRole, makers: dict[str, tuple[str, Maker]]) -> dict[str, Family]:
    return {name: Family(name, title, rounds, role, make) for name, (title, make) in makers.items()}


FAMILIES: dict[str, Family] = {
    **registered(1, "trained", ONE_ROUND),
    **registered(2, "trained", TWO_ROUNDS),
    **registered(1, "unseen", UNSEEN_ONE_ROUND),
    **registered(2, "unseen", UNSEEN_TWO_ROUNDS),
}


def default_seeds(split: Split) -> tuple[int, ...]:
    return {"train": TRAIN_SEEDS, "held-out": HELD_OUT_SEEDS, "unseen": UNSEEN_SEEDS}[split]


def default_families(split: Split) -> list[Family]:
    role = "unseen" if split == "unseen" else "trained"
    return [family for family in FAMILIES.values() if family.split_role == role]


def default_plan() -> list[Planned]:
    """Every instance of the default task set."""
    splits: tuple[Split, ...] = ("train", "held-out", "unseen")
    return [
        Planned(split, family.name, seed)
        for split in splits
        for family in default_families(split)
        for seed in default_seeds(split)
    ]


def make_instance(family: str, seed: int) -> Instance:
    """The same everywhere: seeding with text does not depend on the hash seed of the process."""
    return FAMILIES[family].make(Random(f"{family}:{seed}"))


def write_instance(family: str, seed: int, folder: Path) -> None:
    """Write the Harbor task folder of one instance; the folder must not exist or be empty."""
    write_folder(make_instance(family, seed), family=family, title=FAMILIES[family].title, seed=seed, folder=folder)
