"""States of a policy."""

IMPORTING, READY, DAMAGED = "importing", "ready", "damaged"

EDGES = {
    IMPORTING: frozenset({READY, DAMAGED}),
    READY: frozenset({DAMAGED}),
    DAMAGED: frozenset({READY}),
}
STATES = frozenset(EDGES)
