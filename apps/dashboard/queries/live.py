"""What changed on a run page since an event: the same message for the socket and for polling.

Events decide: their numbers have no gaps, so a page knows what it missed.
"""

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import AnonymousUser

from apps.accounts.models import User
from apps.dashboard import words
from apps.dashboard.badges import RUNS, badge
from apps.dashboard.queries import events, stages
from apps.dashboard.queries.answer import answer
from apps.dashboard.queries.run import phase, progress, smalls, step_counts, visible_run
from apps.dashboard.queries.steps import evaluations, live_step_rows, series_since, step_table, train_table
from apps.dashboard.queries.tile import Tile
from apps.dashboard.queries.tiles import tiles
from apps.lifecycle.models import Event
from apps.runs.models import Run

Message = dict[str, Any]

SLACK = timedelta(seconds=10)
"""Rows that were written just before their event."""
MOST_EVENTS = 500
"""A page that missed more is loaded anew."""


def live_message(user: User | AnonymousUser, run_id: int, since: int, now: datetime) -> Message:
    """Raises Run.DoesNotExist, also for what the user may not see any more."""
    run = visible_run(user, run_id)
    seq = events.newest_seq(run)
    if since > seq or seq - since > MOST_EVENTS:
        return {"seq": seq, "prev_seq": since, "resync": True}
    return {"seq": seq, "prev_seq": since, "server_time": now.timestamp(), **_delta(run, since, seq, now)}


def _delta(run: Run, since: int, seq: int, now: datetime) -> Message:
    config = run.config
    found = evaluations(run)
    steps, train = step_table(live_step_rows(run)), train_table(run)
    sft, grpo = step_counts(steps)
    strong, rest = answer(run, found, sft=sft, grpo=grpo)
    look = badge(RUNS, run.state)
    done = progress(run, config, sft + grpo)
    shown = tiles(run, config, found, train, steps, now)
    return {
        "state": {
            "state": run.state,
            "word": look.word,
            "phase": phase(run, config, found, sft, grpo),
            "version": run.policy_version,
            "progress": done.words,
            "share": f"{words.percent(done.share)}%",
            "strong": strong,
            "rest": rest,
        },
        "waits": _waits(run, now),
        "tiles": {
            "head": _tile(shown.head),
            **{name: _tile(tile) for name, tile in shown.rest.items()},
        },
        "mark": asdict(shown.mark) if shown.mark else None,
        "smalls": {one.column: small_words(one.now, one.rate) for one in smalls(config, steps)},
        "series": series_since(run, found, _moment(run, since), config.sft_steps),
        "events": [_event(one) for one in _events(run, since, seq)],
    }


def small_words(value: float | None, rate: bool) -> str:
    return f"{words.percent(value)} %" if rate else words.number(value)


def _waits(run: Run, now: datetime) -> Message:
    strip = stages.strip(run, run.config, now)
    return {
        "sentence": strip.waiting.sentence,
        "link": strip.link,
        "tone": strip.tone,
        "stages": {
            stage.name: {"words": stage.words, "share": stage.share, "state": stage.state} for stage in strip.stages
        },
    }


def _tile(tile: Tile) -> Message:
    """Notes by place, so that each line of the page can name its own; an empty one clears what stood there."""
    return {**asdict(tile), "notes": {str(i): note for i, note in enumerate(tile.lines)}}


def _moment(run: Run, since: int) -> datetime:
    known = Event.objects.filter(stream=run.stream(), seq=since).values_list("at", flat=True).first()
    return (known or run.created_at) - SLACK


def _events(run: Run, since: int, seq: int) -> list[events.EventView]:
    rows = Event.objects.filter(stream=run.stream(), seq__gt=since, seq__lte=seq).order_by("seq")
    return [events.view(one) for one in rows]


def _event(one: events.EventView) -> Message:
    return {"seq": one.seq, "title": one.title, "tone": one.tone, "text": one.text, "at": one.at.isoformat()}
