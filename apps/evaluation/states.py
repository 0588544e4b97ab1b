"""States of an evaluation."""

PLANNED, RUNNING, FINISHED = "planned", "running", "finished"
SUPERSEDED, CANCELLED = "superseded", "cancelled"

EDGES = {
    PLANNED: frozenset({RUNNING, SUPERSEDED, CANCELLED}),
    RUNNING: frozenset({FINISHED, CANCELLED}),
    FINISHED: frozenset[str](),
    SUPERSEDED: frozenset[str](),
    CANCELLED: frozenset[str](),
}
STATES = frozenset(EDGES)
OPEN = frozenset({PLANNED, RUNNING})
SUITES = ("held-out", "unseen")
