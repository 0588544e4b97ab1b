"""The trained families that one command solves, each short: a small model learns it from four traces."""

from random import Random

from apps.tasks.bundled.instance import (
    File,
    Instance,
    Maker,
    absent,
    entries,
    holds,
    is_folder,
    returns,
    script,
    untouched,
)
from apps.tasks.bundled.words import STEMS, WORDS, file_name, file_names, text_of

OPERATORS = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}
SETTINGS = ("port", "limit", "size", "timeout", "workers", "level", "retries", "width")


def lines_file(rng: Random, path: str, low: int = 4, high: int = 9) -> tuple[File, list[str]]:
    lines = rng.sample(WORDS, rng.randint(low, high))
    return File(path, text_of(lines)), lines


def write_word(rng: Random) -> Instance:
    path, word = file_name(rng), rng.choice(WORDS)
    return Instance(
        instruction=f"Write the word {word} into {path}.",
        rounds=(f"echo {word} > {path}",),
        tests=script(holds(path, f"{word}\n")),
        wrong=f"echo {path} > {path}",
    )


def append_line(rng: Random) -> Instance:
    path = file_name(rng)
    file, lines = lines_file(rng, path)
    word = rng.choice([word for word in WORDS if word not in lines])
    return Instance(
        instruction=f"Append the line {word} to {path}.",
        rounds=(f"echo {word} >> {path}",),
        tests=script(holds(path, f"{file.text}{word}\n")),
        wrong=f"echo {word} > {path}",
        files=(file,),
    )


def copy_file(rng: Random) -> Instance:
    source, copy = file_names(rng, 2)
    file, _ = lines_file(rng, source)
    return Instance(
        instruction=f"Copy {source} to {copy}.",
        rounds=(f"cp {source} {copy}",),
        tests=script(holds(copy, file.text), untouched(file)),
        wrong=f"mv {source} {copy}",
        files=(file,),
    )


def rename_file(rng: Random) -> Instance:
    old, new = file_names(rng, 2)
    file, _ = lines_file(rng, old)
    return Instance(
        instruction=f"Rename {old} to {new}.",
        rounds=(f"mv {old} {new}",),
        tests=script(holds(new, file.text), absent(old)),
        wrong=f"cp {old} {new}",
        files=(file,),
    )


def delete_file(rng: Random) -> Instance:
    victim, *others = (lines_file(rng, path)[0] for path in file_names(rng, 3))
    return Instance(
        instruction=f"Delete the file {victim.path}.",
        rounds=(f"rm {victim.path}",),
        tests=script(absent(victim.path), *map(untouched, others)),
        wrong="rm *",
        files=(victim, *others),
    )


def make_folders(rng: Random) -> Instance:
    path = "/".join(rng.sample(WORDS, 3))
    return Instance(
        instruction=f"Create the nested folder {path}.",
        rounds=(f"mkdir -p {path}",),
        tests=script(is_folder(path), entries([path.split("/")[0]])),
        wrong=f"mkdir {path}",
    )


def move_into_folder(rng: Random) -> Instance:
    path, folder = file_name(rng), rng.choice(WORDS)
    file, keep = lines_file(rng, path)[0], File(f"{folder}/.keep", "")
    return Instance(
        instruction=f"Move {path} into the folder {folder}.",
        rounds=(f"mv {path} {folder}/",),
        tests=script(holds(f"{folder}/{path}", file.text), absent(path)),
        wrong=f"cp {path} {folder}/",
        files=(file, keep),
    )


def count_lines(rng: Random) -> Instance:
    source, result = file_names(rng, 2)
    lines = [" ".join(rng.sample(WORDS, rng.randint(2, 3))) for _ in range(rng.randint(3, 12))]
    file = File(source, text_of(lines))
    return Instance(
        instruction=f"Write the number of lines of {source} into {result}.",
        rounds=(f"wc -l < {source} > {result}",),
        tests=script(holds(result, f"{len(lines)}\n"), untouched(file)),
        wrong=f"wc -w < {source} > {result}",
        files=(file,),
    )


def first_lines(rng: Random) -> Instance:
    (source, result), count = file_names(rng, 2), rng.randint(2, 4)
    file, lines = lines_file(rng, source, 6)
    return Instance(
        instruction=f"Write the first {count} lines of {source} into {result}.",
        rounds=(f"head -n {count} {source} > {result}",),
        tests=script(holds(result, text_of(lines[:count])), untouched(file)),
        wrong=f"tail -n {count} {source} > {result}",
        files=(file,),
    )


def last_lines(rng: Random) -> Instance:
    (source, result), count = file_names(rng, 2), rng.randint(2, 4)
    file, lines = lines_file(rng, source, 6)
    return Instance(
        instruction=f"Write the last {count} lines of {source} into {result}.",
        rounds=(f"tail -n {count} {source} > {result}",),
        tests=script(holds(result, text_of(lines[-count:])), untouched(file)),
        wrong=f"head -n {count} {source} > {result}",
        files=(file,),
    )


def sort_lines(rng: Random) -> Instance:
    source, result = file_names(rng, 2)
    file, lines = lines_file(rng, source)
    while lines == sorted(lines):
        file, lines = lines_file(rng, source)
    return Instance(
        instruction=f"Sort the lines of {source} and save the result to {result}.",
        rounds=(f"sort {source} > {result}",),
        tests=script(holds(result, text_of(sorted(lines))), untouched(file)),
        wrong=f"cp {source} {result}",
        files=(file,),
    )


def find_lines(rng: Random) -> Instance:
    source, result = file_names(rng, 2)
    word, *others = rng.sample(WORDS, 6)
    lines = [f"{name} {rng.randint(1, 99)}" for name in (word, word, *others)]
    rng.shuffle(lines)
    file = File(source, text_of(lines))
    found = [line for line in lines if word in line]
    return Instance(
        instruction=f"Save the lines of {source} that contain {word} to {result}.",
        rounds=(f"grep {word} {source} > {result}",),
        tests=script(holds(result, text_of(found)), untouched(file)),
        wrong=f"echo {word} > {result}",
        files=(file,),
    )


def replace_word(rng: Random) -> Instance:
    path = file_name(rng)
    old, new, *others = rng.sample(WORDS, 6)
    lines = [f"{old} {others[0]}", *others, f"{others[1]} {old}"]
    rng.shuffle(lines)
    file = File(path, text_of(lines))
    return Instance(
        instruction=f"Replace {old} with {new} in {path}.",
        rounds=(f"sed -i 's/{old}/{new}/' {path}",),
        tests=script(holds(path, file.text.replace(old, new))),
        wrong=f"echo {new} > {path}",
        files=(file,),
    )


def csv_rows(rng: Random, rows: int = 5) -> list[list[str]]:
    return [[rng.choice(WORDS), str(rng.randint(10, 99)), rng.choice(WORDS)] for _ in range(rows)]


def csv_column(rng: Random) -> Instance:
    source, result, column = file_name(rng, "csv"), file_name(rng), rng.randint(1, 3)
    rows = csv_rows(rng)
    file = File(source, text_of([",".join(row) for row in rows]))
    return Instance(
        instruction=f"Write column {column} of {source} into {result}.",
        rounds=(f"cut -d, -f{column} {source} > {result}",),
        tests=script(holds(result, text_of([row[column - 1] for row in rows])), untouched(file)),
        wrong=f"cut -d, -f{column % 3 + 1} {source} > {result}",
        files=(file,),
    )


def csv_sum(rng: Random) -> Instance:
    source, result = file_name(rng, "csv"), file_name(rng)
    rows = csv_rows(rng, rng.randint(3, 5))
    file = File(source, text_of([",".join(row) for row in rows]))
    return Instance(
        instruction=f"Add up column 2 of {source} and write the sum into {result}.",
        rounds=(f"awk -F, '{{s += $2}} END {{print s}}' {source} > {result}",),
        tests=script(holds(result, f"{sum(int(row[1]) for row in rows)}\n"), untouched(file)),
        wrong=f"cut -d, -f2 {source} > {result}",
        files=(file,),
    )


def upper_case(rng: Random) -> Instance:
    source, result = file_names(rng, 2)
    file, _ = lines_file(rng, source, 3, 5)
    return Instance(
        instruction=f"Write {source} in upper case to {result}.",
        rounds=(f"tr a-z A-Z < {source} > {result}",),
        tests=script(holds(result, file.text.upper()), untouched(file)),
        wrong=f"tr A-Z a-z < {source} > {result}",
        files=(file,),
    )


def join_files(rng: Random) -> Instance:
    first, second, result = file_names(rng, 3)
    one, _ = lines_file(rng, first, 2, 4)
    two, _ = lines_file(rng, second, 2, 4)
    return Instance(
        instruction=f"Join {first} and {second} into {result}.",
        rounds=(f"cat {first} {second} > {result}",),
        tests=script(holds(result, one.text + two.text), untouched(one), untouched(two)),
        wrong=f"cat {second} {first} > {result}",
        files=(one, two),
    )


def multiply_numbers(rng: Random) -> Instance:
    path, one, two = file_name(rng), rng.randint(11, 99), rng.randint(11, 99)
    return Instance(
        instruction=f"Compute {one} * {two} and write the result into {path}.",
        rounds=(f"echo $(({one} * {two})) > {path}",),
        tests=script(holds(path, f"{one * two}\n")),
        wrong=f"echo $(({one} + {two})) > {path}",
    )


def set_config(rng: Random) -> Instance:
    path = file_name(rng, "conf")
    keys = rng.sample(SETTINGS, 3)
    old, new = rng.sample(range(100, 9999), 2)
    values = {key: str(rng.randint(10, 99)) for key in keys} | {keys[1]: str(old)}
    file = File(path, text_of([f"{key}={value}" for key, value in values.items()]))
    after = text_of([f"{key}={value}" for key, value in (values | {keys[1]: str(new)}).items()])
    return Instance(
        instruction=f"Set {keys[1]} to {new} in {path}.",
        rounds=(f"sed -i 's/{keys[1]}=.*/{keys[1]}={new}/' {path}",),
        tests=script(holds(path, after)),
        wrong=f"echo {keys[1]}={new} >> {path}",
        files=(file,),
    )


def fix_bug(rng: Random) -> Instance:
    path, function = file_name(rng, "py"), rng.choice(STEMS)
    one, two = rng.sample("abcdxyz", 2)
    bad = rng.choice("+-")
    good = rng.choice([operator for operator in OPERATORS if operator != bad])
    file = File(path, f"def {function}({one}, {two}):\n    return {one} {bad} {two}\n")
    pairs = [(rng.randint(10, 99), rng.randint(3, 9)) for _ in range(3)]
    return Instance(
        instruction=f"Function {function} in {path} must return {one} {good} {two}, not {one} {bad} {two}. Fix it.",
        rounds=(f"sed -i 's/{one} {bad} {two}/{one} {good} {two}/' {path}",),
        tests=script(returns(path, function, {pair: OPERATORS[good](*pair) for pair in pairs})),
        wrong=f"sed -i 's/{one} {bad} {two}/{two} {bad} {one}/' {path}",
        files=(file,),
    )


ONE_ROUND: dict[str, tuple[str, Maker]] = {
    "write-word": ("Write a word into a file", write_word),
    "append-line": ("Append a line", append_line),
    "copy-file": ("Copy a file", copy_file),
    "rename-file": ("Rename a file", rename_file),
    "delete-file": ("Delete one file", delete_file),
    "make-folders": ("Make nested folders", make_folders),
    "move-into-folder": ("Move a file into a folder", move_into_folder),
    "count-lines": ("Count lines", count_lines),
    "first-lines": ("Take the first lines", first_lines),
    "last-lines": ("Take the last lines", last_lines),
    "sort-lines": ("Sort lines", sort_lines),
    "find-lines": ("Find lines with a word", find_lines),
    "replace-word": ("Replace a word in place", replace_word),
    "csv-column": ("Take a column of a table", csv_column),
    "csv-sum": ("Sum a column of a table", csv_sum),
    "upper-case": ("Write in upper case", upper_case),
    "join-files": ("Join two files", join_files),
    "multiply-numbers": ("Multiply two numbers", multiply_numbers),
    "set-config": ("Set a value of a config file", set_config),
    "fix-bug": ("Fix a one-line bug", fix_bug),
}
