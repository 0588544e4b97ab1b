"""States of a checkpoint."""

WRITTEN, PUBLISHING, LIVE, RETIRED, BROKEN = "written", "publishing", "live", "retired", "broken"

EDGES = {
    WRITTEN: frozenset({PUBLISHING, RETIRED, BROKEN}),
    PUBLISHING: frozenset({LIVE, RETIRED, BROKEN}),
    LIVE: frozenset({RETIRED, BROKEN}),
    RETIRED: frozenset[str](),
    BROKEN: frozenset[str](),
}
STATES = frozenset(EDGES)
