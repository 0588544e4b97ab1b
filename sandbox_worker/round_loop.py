"""The rounds of one attempt: the policy writes, the box does, the policy hears, until it submits or meets a limit."""

import time

from msgspec import structs

from sandbox_worker.attempt import Attempt
from sandbox_worker.errors import boundary
from sandbox_worker.messages import Ending, Round
from sandbox_worker.observation import observe, raw_output, recordable
from sandbox_worker.policy import ContextFullError, Policy, Turn
from sandbox_worker.protocols.fenced_shell import Command, GiveUp, Submit, parse
from sandbox_worker.sandbox.base import Box, Completed

_READ_AND_RUN = ["bash", "-c", 'read -rd ""; eval "$REPLY"']
"""The script comes by stdin, whole, before it runs: its own commands then find stdin at its end."""


def run_script(box: Box, script: str, *, seconds: float) -> Completed:
    """Run the policy's text as a script. Raises BoundaryError('box')."""
    with boundary("box"):
        return box.run(_READ_AND_RUN, timeout=seconds, stdin=script.replace("\0", "").encode("utf-8", "replace"))


class RoundLoop:
    """Appends each round to rounds as soon as it is over."""

    def __init__(self, attempt: Attempt, box: Box, policy: Policy, rounds: list[Round]) -> None:
        self._attempt = attempt
        self._limits = attempt.request.limits
        self._box = box
        self._policy = policy
        self._rounds = rounds
        self._began = time.monotonic()
        self._outage_seconds = 0.0
        self.prompt_tokens = 0
        self.sampled_tokens = 0

    @property
    def _seconds_left(self) -> float:
        """Of the agent's time: a policy server that was away does not count."""
        return self._limits.agent_seconds - (time.monotonic() - self._began - self._outage_seconds)

    def play(self) -> Ending:
        while (ending := self._round(len(self._rounds) + 1)) is None:
            pass
        return ending

    def _round(self, index: int) -> Ending | None:
        """Play one round; None if another may follow."""
        self._attempt.check()
        if self._seconds_left <= 0:
            return Ending(kind="limit", detail="time")
        started_at, began = time.time(), time.monotonic()
        try:
            with boundary("policy"):
                turn = self._policy.turn(index, self._attempt)
        except ContextFullError:
            return Ending(kind="limit", detail="context")
        self._outage_seconds += turn.outage_seconds
        self.prompt_tokens += turn.prompt_tokens
        self.sampled_tokens += turn.sampled_tokens
        self._rounds.append(_record(index, turn, started_at, time.monotonic() - began))
        action = parse(turn.message, cut=turn.cut)
        if isinstance(action, Command):
            return self._command(index, action.script)
        return _ending_without_command(action)

    def _command(self, index: int, script: str) -> Ending | None:
        self._rounds[-1] = structs.replace(self._rounds[-1], action=recordable(script))
        seconds = min(self._limits.command_seconds, self._seconds_left, self._attempt.seconds_left)
        began = time.monotonic()
        completed = run_script(self._box, script, seconds=max(seconds, 0.1))
        self._attempt.check()
        box_seconds = time.monotonic() - began
        ending = self._limit_reached(index)
        observation = "" if ending else observe(completed, characters=self._limits.observation_characters)
        self._rounds[-1] = structs.replace(
            self._rounds[-1],
            observation=recordable(observation),
            output=raw_output(completed.output),
            output_bytes=completed.output_bytes,
            exit_code=completed.exit_code,
            end=completed.end.value,
            truncated=completed.truncated,
            box_seconds=box_seconds,
        )
        if ending is None:
            with boundary("policy"):
                self._policy.observe(observation)
        return ending

    def _limit_reached(self, index: int) -> Ending | None:
        if self._box.spent:
            return Ending(kind="limit", detail=self._box.spent)
        if index >= self._limits.rounds:
            return Ending(kind="limit", detail="rounds")
        return Ending(kind="limit", detail="time") if self._seconds_left <= 0 else None


def _ending_without_command(action: object) -> Ending:
    if isinstance(action, Submit):
        return Ending(kind="submitted")
    if isinstance(action, GiveUp):
        return Ending(kind="gave_up")
    return Ending(kind="limit", detail="tokens")


def _record(index: int, turn: Turn, started_at: float, model_seconds: float) -> Round:
    """The round as far as the policy made it: kept even if the box dies under its command."""
    return Round(
        index=index,
        message=recordable(turn.message),
        action=None,
        observation="",
        output="",
        output_bytes=0,
        exit_code=None,
        end="",
        truncated=False,
        started_at=started_at,
        model_seconds=model_seconds,
        box_seconds=0.0,
        finish_reason=turn.finish_reason,
        policy_version=turn.policy_version,
        split=turn.split,
        prompt_ids=turn.prompt_ids,
        sampled_ids=turn.sampled_ids,
        logprobs=turn.logprobs,
    )
