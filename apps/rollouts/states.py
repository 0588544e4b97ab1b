"""States of groups, rollouts and attempts."""

OPEN, COMPLETE, GROUP_ADMITTED, CONSUMED, DROPPED = "open", "complete", "admitted", "consumed", "dropped"

GROUP_EDGES = {
    OPEN: frozenset({COMPLETE, DROPPED}),
    COMPLETE: frozenset({GROUP_ADMITTED, CONSUMED, DROPPED}),
    GROUP_ADMITTED: frozenset({CONSUMED, DROPPED}),
    CONSUMED: frozenset({GROUP_ADMITTED, DROPPED}),
    DROPPED: frozenset[str](),
}
GROUP_STATES = frozenset(GROUP_EDGES)

PLANNED, QUEUED, ACTIVE = "planned", "queued", "active"
RECORDED, PARKED, CANCELLED = "recorded", "parked", "cancelled"

EDGES = {
    PLANNED: frozenset({QUEUED, CANCELLED}),
    QUEUED: frozenset({ACTIVE, RECORDED, PLANNED, PARKED, CANCELLED}),
    ACTIVE: frozenset({RECORDED, PLANNED, PARKED, CANCELLED}),
    RECORDED: frozenset[str](),
    PARKED: frozenset({PLANNED}),
    CANCELLED: frozenset[str](),
}
STATES = frozenset(EDGES)
IN_FLIGHT = frozenset({QUEUED, ACTIVE})
"""Claimed: queued until a worker says that it holds it, active then."""
DONE = frozenset({RECORDED, PARKED, CANCELLED})

ATTEMPT_ACTIVE, ATTEMPT_RECORDED, ATTEMPT_LOST, ATTEMPT_CANCELLED = "active", "recorded", "lost", "cancelled"
ATTEMPT_STATES = frozenset({ATTEMPT_ACTIVE, ATTEMPT_RECORDED, ATTEMPT_LOST, ATTEMPT_CANCELLED})
