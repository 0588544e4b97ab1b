"""The families that are never trained on: the skills of the others in new compositions."""

from random import Random

from apps.tasks.bundled.instance import File, Instance, Maker, absent, holds, script, untouched
from apps.tasks.bundled.one_round import lines_file
from apps.tasks.bundled.two_rounds import hidden_file, hidden_name, sentence
from apps.tasks.bundled.words import WORDS, file_name, file_names, text_of

ADDITIONS = (
    "Add {right} this time, not {decoy}.",
    "Not {decoy}: the line to add is {right}.",
    "We have {decoy}, so add {right}.",
    "Please add {right} instead of {decoy}.",
)


def lower_case(rng: Random) -> Instance:
    source, result = file_names(rng, 2)
    text = text_of([word.upper() for word in rng.sample(WORDS, rng.randint(3, 5))])
    file = File(source, text)
    return Instance(
        instruction=f"Write {source} in lower case to {result}.",
        rounds=(f"tr A-Z a-z < {source} > {result}",),
        tests=script(holds(result, text.lower()), untouched(file)),
        wrong=f"tr a-z A-Z < {source} > {result}",
        files=(file,),
    )


def join_count(rng: Random) -> Instance:
    first, second, result = file_names(rng, 3)
    (one, some), (two, more) = lines_file(rng, first), lines_file(rng, second)
    return Instance(
        instruction=f"Write the number of lines of {first} and {second} together into {result}.",
        rounds=(f"cat {first} {second} | wc -l > {result}",),
        tests=script(holds(result, f"{len(some) + len(more)}\n"), untouched(one), untouched(two)),
        wrong=f"wc -l < {first} > {result}",
        files=(one, two),
    )


def copy_append(rng: Random) -> Instance:
    source, copy = file_names(rng, 2)
    file, lines = lines_file(rng, source)
    word = rng.choice([word for word in WORDS if word not in lines])
    return Instance(
        instruction=f"Copy {source} to {copy}, then append the line {word} to {copy}.",
        rounds=(f"cp {source} {copy}; echo {word} >> {copy}",),
        tests=script(holds(copy, f"{file.text}{word}\n"), untouched(file)),
        wrong=f"cp {source} {copy}",
        files=(file,),
    )


def count_matches(rng: Random) -> Instance:
    source, result = file_names(rng, 2)
    word, *others = rng.sample(WORDS, 6)
    hits = rng.randint(2, 6)
    lines = [f"{name} {rng.randint(1, 99)}" for name in (*[word] * hits, *others)]
    rng.shuffle(lines)
    file = File(source, text_of(lines))
    return Instance(
        instruction=f"Write the number of lines of {source} that contain {word} into {result}.",
        rounds=(f"grep {word} {source} | wc -l > {result}",),
        tests=script(holds(result, f"{hits}\n"), untouched(file)),
        wrong=f"wc -l < {source} > {result}",
        files=(file,),
    )


def told_append(rng: Random) -> Instance:
    note, path = file_names(rng, 2)
    listed, lines = lines_file(rng, path, 3, 5)
    right = rng.choice([word for word in WORDS if word not in lines])
    file = File(note, f"{sentence(rng, ADDITIONS, right=right, decoy=rng.choice(lines))}\n")
    return Instance(
        instruction=f"Read {note} and append the word that it asks for to {path}.",
        rounds=(f"cat {note}", f"echo {right} >> {path}"),
        tests=script(holds(path, f"{listed.text}{right}\n"), untouched(file)),
        wrong=f"cat {note} >> {path}",
        files=(file, listed),
    )


def find_move(rng: Random) -> Instance:
    name, result = hidden_name(rng), file_name(rng, "txt")
    file, decoys = hidden_file(rng, name)
    return Instance(
        instruction=f"Find {name} below this folder and move it to {result}.",
        rounds=(f"find . -name {name}", f'mv "./{file.path}" {result}'),
        tests=script(holds(result, file.text), absent(file.path), *map(untouched, decoys)),
        wrong=f"mv $(find . -name {name}) {result}",
        files=(file, *decoys),
    )


UNSEEN_ONE_ROUND: dict[str, tuple[str, Maker]] = {
    "lower-case": ("Write in lower case", lower_case),
    "join-count": ("Count the lines of two files", join_count),
    "copy-append": ("Copy a file and append to the copy", copy_append),
    "count-matches": ("Count lines with a word", count_matches),
}

UNSEEN_TWO_ROUNDS: dict[str, tuple[str, Maker]] = {
    "told-append": ("Read which word to append", told_append),
    "find-move": ("Find a file, move it", find_move),
}
