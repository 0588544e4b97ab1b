"""States of a learner step."""

HANDED, APPLIED, FAILED, REWOUND = "handed", "applied", "failed", "rewound"

EDGES = {
    HANDED: frozenset({APPLIED, FAILED}),
    APPLIED: frozenset({REWOUND}),
    FAILED: frozenset[str](),
    REWOUND: frozenset[str](),
}
STATES = frozenset(EDGES)
