"""The trained families whose first command cannot suffice: what to do is only seen in what it prints.

Notes are sentences with a decoy at changing places, and found paths hold a space, so that `act $(look)` goes wrong. No
stop or comma touches a file name: it would shield the decoy from such a command.
"""

from random import Random

from apps.tasks.bundled.instance import (
    File,
    Instance,
    Maker,
    absent,
    entries,
    holds,
    is_folder,
    script,
    untouched,
)
from apps.tasks.bundled.words import STEMS, WORDS, file_name, file_names, text_of

PASSWORDS = (
    "The password is {right}, not {decoy}.",
    "Not {decoy}: the password is {right}.",
    "Forget {decoy}, the password is {right}.",
    "The password was {decoy} and is now {right}.",
    "Use the password {right} instead of {decoy}.",
)
DELETIONS = (
    "Delete {right} but keep {decoy}",
    "Keep {decoy} and delete {right}",
    "We need {decoy} so delete {right} now",
    "Please delete {right} and never {decoy}",
)
PORTS = (
    "Use port {right} instead of {decoy}.",
    "Not {decoy} any more: the port is {right}.",
    "The new port is {right}, it was {decoy}.",
    "Port {decoy} is closed, take {right}.",
)
TABLES = (
    "The table is {right} and not {decoy}",
    "Do not use {decoy} but {right}",
    "The old table was {decoy} and the new one is {right}",
    "Look into {right} and forget {decoy}",
)
COMPLAINTS = (
    "error: the folder {right} is missing",
    "cannot start: no folder {right} here",
    "folder {right} not found, giving up",
    "I need a folder named {right} first",
)
DEMANDS = (
    "{path} must hold the word {right}",
    "error: no word {right} in {path}",
    "please write {right} into {path}",
    "the file {path} should say {right}",
)


def sentence(rng: Random, templates: tuple[str, ...], **values: str) -> str:
    return rng.choice(templates).format(**values)


def told_word(rng: Random) -> Instance:
    note, result = file_names(rng, 2)
    right, decoy = rng.sample(WORDS, 2)
    file = File(note, f"{sentence(rng, PASSWORDS, right=right, decoy=decoy)}\n")
    return Instance(
        instruction=f"Read {note} and write the password that it names into {result}.",
        rounds=(f"cat {note}", f"echo {right} > {result}"),
        tests=script(holds(result, f"{right}\n"), untouched(file)),
        wrong=f"cat {note} > {result}",
        files=(file,),
    )


def told_delete(rng: Random) -> Instance:
    note, right, decoy = file_names(rng, 3)
    file = File(note, f"{sentence(rng, DELETIONS, right=right, decoy=decoy)}\n")
    victim, kept = File(right, f"{rng.choice(WORDS)}\n"), File(decoy, f"{rng.choice(WORDS)}\n")
    return Instance(
        instruction=f"Read {note} and delete the file that it tells you to delete.",
        rounds=(f"cat {note}", f"rm {right}"),
        tests=script(absent(right), untouched(kept), untouched(file)),
        wrong=f"rm $(cat {note})",
        files=(file, victim, kept),
    )


def told_port(rng: Random) -> Instance:
    note, config = file_name(rng), file_name(rng, "conf")
    right, decoy = (str(port) for port in rng.sample(range(1024, 9999), 2))
    file = File(note, f"{sentence(rng, PORTS, right=right, decoy=decoy)}\n")
    host = rng.choice(WORDS)
    return Instance(
        instruction=f"Read {note} and set port in {config} to the new one that it names.",
        rounds=(f"cat {note}", f"sed -i 's/port=.*/port={right}/' {config}"),
        tests=script(holds(config, f"host={host}\nport={right}\n"), untouched(file)),
        wrong=f"cat {note} >> {config}",
        files=(file, File(config, f"host={host}\nport={decoy}\n")),
    )


def table_lookup(rng: Random) -> Instance:
    (note, result), (right, decoy) = file_names(rng, 2), file_names(rng, 2, "csv")
    names = rng.sample(WORDS, 4)
    word = rng.choice(names)
    file = File(note, f"{sentence(rng, TABLES, right=right, decoy=decoy)}\n")
    numbers = iter(rng.sample(range(100, 1000), 2 * len(names)))  # different: the decoy's line is never the right one
    tables = {path: {name: f"{name},{next(numbers)}" for name in names} for path in (right, decoy)}
    files = tuple(File(path, text_of(list(rows.values()))) for path, rows in tables.items())
    return Instance(
        instruction=f"Read {note} and write the line with {word} of the table that it names into {result}.",
        rounds=(f"cat {note}", f"grep {word} {right} > {result}"),
        tests=script(holds(result, f"{tables[right][word]}\n"), *map(untouched, (file, *files))),
        wrong=f"grep -h {word} $(cat {note}) > {result}",
        files=(file, *files),
    )


def missing_folder(rng: Random) -> Instance:
    path, word = file_name(rng, "sh"), rng.choice(WORDS)
    complaint = sentence(rng, COMPLAINTS, right=word)
    file = File(path, f'[ -d {word} ] && echo started && exit\necho "{complaint}"\nexit 1\n')
    return Instance(
        instruction=f"Run {path} and make the folder that it misses.",
        rounds=(f"sh {path}", f"mkdir {word}"),
        tests=script(is_folder(word), untouched(file), entries([path, word])),
        wrong=f"mkdir $(sh {path})",
        files=(file,),
    )


def check_says(rng: Random) -> Instance:
    path, (result,), word = file_name(rng, "sh"), file_names(rng, 1), rng.choice(WORDS)
    demand = sentence(rng, DEMANDS, right=word, path=result)
    file = File(path, f'grep -qsx {word} {result} && echo fine && exit\necho "{demand}"\nexit 1\n')
    return Instance(
        instruction=f"Run {path} and do what it asks for.",
        rounds=(f"sh {path}", f"echo {word} > {result}"),
        tests=script(holds(result, f"{word}\n"), untouched(file)),
        wrong=f"sh {path} > {result}",
        files=(file,),
    )


def hidden_file(rng: Random, name: str) -> tuple[File, tuple[File, ...]]:
    """A file at a random depth below a folder whose name holds a space, and files elsewhere."""
    outer, one, two, other, last = rng.sample(WORDS, 5)
    folder = "/".join([outer, f"{one} {two}", last][rng.randint(0, 1) : rng.randint(2, 3)])
    decoys = tuple(File(f"{other}/{stem}.txt", f"{rng.choice(WORDS)}\n") for stem in rng.sample(STEMS, 2))
    return File(f"{folder}/{name}", text_of(rng.sample(WORDS, 3))), decoys


def hidden_name(rng: Random) -> str:
    """Never that of a decoy: those end in .txt."""
    return file_name(rng, rng.choice(("md", "log", "dat", "csv")))


def find_copy(rng: Random) -> Instance:
    name, result = hidden_name(rng), file_name(rng, "txt")
    file, decoys = hidden_file(rng, name)
    return Instance(
        instruction=f"Find {name} below this folder and copy it to {result}.",
        rounds=(f"find . -name {name}", f'cp "./{file.path}" {result}'),
        tests=script(holds(result, file.text), untouched(file)),
        wrong=f"cp $(find . -name {name}) {result}",
        files=(file, *decoys),
    )


def grep_rename(rng: Random) -> Instance:
    result, words = file_name(rng), rng.sample(WORDS, 12)
    contents, names = [words[:2], words[2:4], words[4:6]], [words[6:8], words[8:10], words[10:]]
    ending = rng.choice(("txt", "md", "log"))
    files = [File(f"{' '.join(name)}.{ending}", text_of(text)) for name, text in zip(names, contents, strict=True)]
    right = rng.randrange(3)
    word = rng.choice(contents[right])
    others = [file for file in files if file != files[right]]
    return Instance(
        instruction=f"Search all files here for {word} and rename the one that has it to {result}.",
        rounds=(f"grep -l {word} *", f'mv "{files[right].path}" {result}'),
        tests=script(holds(result, files[right].text), absent(files[right].path), *map(untouched, others)),
        wrong=f"mv $(grep -l {word} *) {result}",
        files=tuple(files),
    )


TWO_ROUNDS: dict[str, tuple[str, Maker]] = {
    "told-word": ("Read a password, write it", told_word),
    "told-delete": ("Read which file to delete", told_delete),
    "told-port": ("Read a port, set it", told_port),
    "table-lookup": ("Read which table, look up a line", table_lookup),
    "missing-folder": ("Run, read the error, make the folder", missing_folder),
    "check-says": ("Run a check, do what it asks", check_says),
    "find-copy": ("Find a file, copy it", find_copy),
    "grep-rename": ("Find the file with a word, rename it", grep_rename),
}
