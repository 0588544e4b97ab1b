"""How each state looks: icon, word and tone. Unsolved is red (the agent), broken is violet (we), apart everywhere."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Badge:
    word: str
    tone: str
    icon: str


RUNS = {
    "draft": Badge("Draft", "idle", "minus"),
    "queued": Badge("Queued", "idle", "clock"),
    "running": Badge("Running", "live", "running"),
    "paused": Badge("Paused", "warn", "pause"),
    "draining": Badge("Draining", "live", "clock"),
    "finished": Badge("Finished", "ok", "check-circle"),
    "failed": Badge("Broken", "broken", "broken"),
    "cancelling": Badge("Cancelling", "idle", "clock"),
    "cancelled": Badge("Cancelled", "idle", "stop"),
}
VERDICTS = {
    "solved": Badge("Solved", "ok", "check-circle"),
    "unsolved": Badge("Unsolved", "fail", "x-circle"),
    "none": Badge("No verdict", "broken", "broken"),
}
ENDINGS = {
    "submitted": Badge("Submitted", "idle", "check"),
    "gave_up": Badge("Gave up", "idle", "minus"),
    "limit": Badge("Limit", "idle", "clock"),
    "stopped_early": Badge("Stopped early", "warn", "stop"),
    "infra": Badge("Broken", "broken", "broken"),
}
ROLLOUTS = {
    "planned": Badge("Planned", "idle", "clock"),
    "queued": Badge("Queued", "idle", "clock"),
    "active": Badge("Running", "live", "running"),
    "recorded": Badge("Recorded", "ok", "check"),
    "parked": Badge("Parked", "broken", "broken"),
    "cancelled": Badge("Cancelled", "idle", "stop"),
}
ATTEMPTS = {
    "active": Badge("Running", "live", "running"),
    "recorded": Badge("Recorded", "ok", "check"),
    "lost": Badge("Lost", "broken", "broken"),
    "cancelled": Badge("Cancelled", "idle", "stop"),
}
TASKS = {
    "imported": Badge("Imported", "idle", "download"),
    "linted": Badge("Linted", "idle", "check"),
    "built": Badge("Built", "idle", "box"),
    "controls": Badge("Controls running", "live", "running"),
    "stability": Badge("Stability running", "live", "running"),
    "red-teamed": Badge("Red-teamed", "live", "lock"),
    "admitted": Badge("Admitted", "ok", "check-circle"),
    "quarantined": Badge("Quarantined", "warn", "alert"),
    "rejected": Badge("Rejected", "fail", "x-circle"),
    "retired": Badge("Retired", "idle", "stop"),
}
EVALUATIONS = {
    "planned": Badge("Planned", "idle", "clock"),
    "running": Badge("Running", "live", "running"),
    "finished": Badge("Finished", "ok", "check-circle"),
    "superseded": Badge("Superseded", "idle", "minus"),
    "cancelled": Badge("Cancelled", "idle", "stop"),
}
WORKERS = {
    "alive": Badge("Up", "ok", "check-circle"),
    "suspect": Badge("Late", "warn", "alert"),
    "gone": Badge("Gone", "idle", "stop"),
    "refused": Badge("Refused", "broken", "broken"),
}
HOSTS = {
    "ok": Badge("Isolates", "ok", "check-circle"),
    "weaker": Badge("Weaker", "warn", "alert"),
    "missing": Badge("Cannot isolate", "broken", "broken"),
}
FINDINGS = {
    "ok": Badge("Ok", "ok", "check"),
    "weaker": Badge("Weaker", "warn", "alert"),
    "missing": Badge("Missing", "broken", "broken"),
    "not needed": Badge("Not needed", "idle", "minus"),
}
POLICIES = {
    "importing": Badge("Importing", "live", "running"),
    "ready": Badge("Ready", "ok", "check-circle"),
}
SEVERITIES = {
    "info": Badge("Note", "idle", "info"),
    "warn": Badge("Warning", "warn", "alert"),
    "broken": Badge("Broken", "broken", "alert"),
    "error": Badge("Error", "broken", "broken"),
    "critical": Badge("Critical", "broken", "broken"),
}

ALERTS = {
    "no-sandbox-worker": "no sandbox worker",
    "no-learner": "no learner",
    "many-learners": "more than one learner",
    "learner-store": "store of the learner",
    "all-flat": "nothing to learn from",
    "policy-server": "policy server",
    "publish": "serving a new version",
    "pass": "work of the control plane",
    "infra-rate": "attempts that broke on our side",
    "parked": "parked rollouts",
    "ledger": "the ledger does not balance",
}
"""What each kind of alert is about."""


def alert_words(kind: str) -> str:
    return ALERTS.get(kind, kind.replace("-", " "))


def badge(table: dict[str, Badge], state: str) -> Badge:
    """A state that has no look of its own still shows its word."""
    return table.get(state) or Badge(state.replace("_", " ").capitalize(), "idle", "info")
