"""The words and file names of the instances. No word holds another: a search for one finds only it."""

import random

WORD_LIST = """
    amber anchor apple arrow autumn bamboo basket beacon beaver bottle bridge bronze butter button cactus camel
    candle canyon carbon castle cedar cherry circle clover cobalt coffee comet copper coral cotton crystal
    desert diamond dolphin dragon eagle emerald engine falcon feather fennel forest fossil fountain galaxy
    garden ginger glacier granite guitar hammer harbor hazel helmet honey island ivory jacket jaguar jasmine
    jungle kettle ladder lagoon lantern lemon lizard magnet mango maple marble meadow melon mirror monkey needle
    nickel ocean olive onion orange orchid oyster palace panda parrot pebble pencil pepper piano pigeon pillow
    pirate planet pocket poppy potato pumpkin puzzle quartz rabbit raven ribbon river rocket saddle salmon
    saturn shadow silver spider spring summit sunset temple thunder tiger timber tomato tulip tunnel turtle
    umbrella valley vanilla velvet violet walnut whale willow window winter yellow zebra
"""
WORDS = tuple(WORD_LIST.split())
"""For content and for names of folders."""

STEM_LIST = """
    answer archive backup book build budget chapter data diary draft export final guide index items journal
    labels letter list log main memo names notes order outline page paper plan poem prices queue quotes recipe
    record report result review roster sample scores script sheet stats story summary survey table tasks text
    todo topics users visits words
"""
STEMS = tuple(STEM_LIST.split())
"""For names of files."""

ENDINGS = ("txt", "log", "md", "dat")


def file_names(rng: random.Random, count: int, ending: str | None = None) -> list[str]:
    """Different stems, each with the ending asked for or any."""
    return [f"{stem}.{ending or rng.choice(ENDINGS)}" for stem in rng.sample(STEMS, count)]


def file_name(rng: random.Random, ending: str | None = None) -> str:
    return file_names(rng, 1, ending)[0]


def text_of(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
