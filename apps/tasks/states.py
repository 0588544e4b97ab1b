"""States of a task version on its way to being trusted."""

IMPORTED, LINTED, BUILT, CONTROLS = "imported", "linted", "built", "controls"
STABILITY, RED_TEAMED = "stability", "red-teamed"
ADMITTED, QUARANTINED, REJECTED, RETIRED = "admitted", "quarantined", "rejected", "retired"

EDGES = {
    IMPORTED: frozenset({LINTED, REJECTED, RETIRED}),
    LINTED: frozenset({CONTROLS, BUILT, REJECTED, RETIRED}),
    BUILT: frozenset({CONTROLS, REJECTED, RETIRED}),
    CONTROLS: frozenset({ADMITTED, STABILITY, REJECTED, LINTED, RETIRED}),
    STABILITY: frozenset({RED_TEAMED, QUARANTINED, REJECTED, RETIRED}),
    RED_TEAMED: frozenset({ADMITTED, QUARANTINED, REJECTED, RETIRED}),
    ADMITTED: frozenset({QUARANTINED, RETIRED}),
    QUARANTINED: frozenset({LINTED, RETIRED}),
    REJECTED: frozenset({LINTED, RETIRED}),
    RETIRED: frozenset[str](),
}
STATES = frozenset(EDGES)
USABLE = frozenset({ADMITTED})
"""A run may use these."""
REFUSED = frozenset({REJECTED, QUARANTINED, RETIRED})
"""No control under way will make them usable."""
