"""States of a policy."""

IMPORTING, READY = "importing", "ready"

EDGES = {
    IMPORTING: frozenset({READY}),
    READY: frozenset[str](),
}
STATES = frozenset(EDGES)
