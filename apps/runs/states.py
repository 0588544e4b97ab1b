"""States of a run."""

DRAFT, QUEUED, RUNNING, PAUSED, DRAINING = "draft", "queued", "running", "paused", "draining"
FINISHED, FAILED, CANCELLING, CANCELLED = "finished", "failed", "cancelling", "cancelled"

EDGES = {
    DRAFT: frozenset({QUEUED, CANCELLED}),
    QUEUED: frozenset({RUNNING, PAUSED, CANCELLING, FAILED}),
    RUNNING: frozenset({PAUSED, DRAINING, FINISHED, FAILED, CANCELLING}),
    PAUSED: frozenset({QUEUED, RUNNING, DRAINING, CANCELLING, FAILED}),
    DRAINING: frozenset({FINISHED, FAILED, PAUSED, CANCELLING}),
    CANCELLING: frozenset({CANCELLED}),
    FINISHED: frozenset[str](),
    FAILED: frozenset[str](),
    CANCELLED: frozenset[str](),
}
STATES = frozenset(EDGES)
ACTIVE = frozenset({QUEUED, RUNNING, PAUSED, DRAINING, CANCELLING})
"""The pipeline looks at these."""
CARRIED = ACTIVE - {CANCELLING}
"""A pass carries these along the flow."""
DISPATCHING = frozenset({RUNNING, DRAINING})
"""New attempts go out in these."""
ENDED = frozenset({FINISHED, FAILED, CANCELLED})
