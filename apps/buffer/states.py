"""States of samples and batches, and the reasons to discard a sample."""

BUFFERED, HANDED, TRAINED, DISCARDED = "buffered", "handed", "trained", "discarded"

SAMPLE_STATES = frozenset({BUFFERED, HANDED, TRAINED, DISCARDED})

FLAT, STALE, INCOMPLETE, INFRA, REWOUND, CUT_SHORT = "flat", "stale", "incomplete", "infra", "rewound", "run ended"
REASONS = {
    FLAT: "all tries of the group got the same reward: nothing to learn",
    STALE: "more versions behind than the bound when a batch was cut",
    INCOMPLETE: "a sibling was lost for good, and the group with it",
    INFRA: "we broke: never rewarded, never trained on",
    REWOUND: "its version, or the step that used it, is not on the live branch",
    CUT_SHORT: "the run ended before a batch could use it",
}

CUT, BATCH_HANDED, APPLIED, RETURNED = "cut", "handed", "applied", "returned"

BATCH_EDGES = {
    CUT: frozenset({BATCH_HANDED, RETURNED}),
    BATCH_HANDED: frozenset({APPLIED, RETURNED}),
    APPLIED: frozenset({RETURNED}),
    RETURNED: frozenset[str](),
}
BATCH_STATES = frozenset(BATCH_EDGES)
