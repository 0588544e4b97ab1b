from wire.finding import Finding, State, mends, worst


def row(name: str, state: State, mend: str = "") -> Finding:
    return Finding(about="host", name=name, state=state, found="so and so", mend=mend)


def test_the_worst_row_decides() -> None:
    assert worst([]) == "ok"
    assert worst([row("a", "ok"), row("b", "not needed")]) == "ok"
    assert worst([row("a", "weaker"), row("b", "ok")]) == "weaker"
    assert worst([row("a", "weaker"), row("b", "missing")]) == "missing"


def test_each_thing_to_do_stands_once_with_all_rows_that_ask_for_it() -> None:
    rows = [
        row("a", "missing", "Do it."),
        row("b", "ok"),
        row("c", "weaker", "Or this."),
        row("d", "missing", "Do it."),
    ]
    assert {mend: [found.name for found in asking] for mend, asking in mends(rows).items()} == {
        "Do it.": ["a", "d"],
        "Or this.": ["c"],
    }
