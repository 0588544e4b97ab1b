"""States of an evaluation."""

PLANNED, RUNNING, FINISHED = "planned", "running", "finished"
SUPERSEDED, CANCELLED = "superseded", "cancelled"

EDGES = {
    PLANNED: frozenset({RUNNING, SUPERSEDED, CANCELLED}),
    RUNNING: frozenset({FINISHED, CANCELLED}),
    FINISHED: frozenset({RUNNING}),
    SUPERSEDED: frozenset({PLANNED}),
    CANCELLED: frozenset[str](),
}
STATES = frozenset(EDGES)
"""A superseded one comes back where its version is the newest again, after a rewind.

A finished one runs again where it turns out to be the last and needs more tries."""
OPEN = frozenset({PLANNED, RUNNING})
SUITES = ("held-out", "unseen")
