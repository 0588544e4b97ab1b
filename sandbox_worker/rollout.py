"""One attempt from its first box to its grade.

Whatever breaks is recorded with the boundary that it crossed, and with the rounds so far.
"""

import time
from contextlib import ExitStack
from dataclasses import replace

from sandbox_worker.attempt import Attempt, AttemptCancelledError
from sandbox_worker.boxes import Boxes, BoxUse, box_limits, box_spec
from sandbox_worker.carrying import Carrying, Load
from sandbox_worker.environment import with_image
from sandbox_worker.errors import BoundaryError, boundary, describe
from sandbox_worker.grading.fresh_box import grade, ungradable
from sandbox_worker.messages import Ending, GradeReport, Outcome, Phases, PolicyCall, Round, ScriptedCall
from sandbox_worker.model_policy import ChatPolicy, TokenPolicy
from sandbox_worker.observation import recordable
from sandbox_worker.policy import Policy
from sandbox_worker.policy_client import PolicyClient
from sandbox_worker.round_loop import RoundLoop
from sandbox_worker.sandbox.base import Box, BoxFileError, BoxSpec, BoxSpentError, SandboxError
from sandbox_worker.sandbox.images.errors import ImageError
from sandbox_worker.sandbox.images.recipe import ImageBuilder
from sandbox_worker.sandbox.network.allowlist import Allowlist
from sandbox_worker.scripted import ScriptedPolicy
from sandbox_worker.task_archive import DamagedArchiveError
from sandbox_worker.task_content import TaskContent, Tasks
from sandbox_worker.tokenization import Tokenizers
from wire.store import StoreError

_EVIDENCE = 2000


class Means:
    """What every attempt of this process uses."""

    def __init__(
        self,
        *,
        boxes: Boxes,
        images: ImageBuilder,
        tasks: Tasks,
        tokenizers: Tokenizers,
        policy_client: PolicyClient,
        incarnation: str,
    ) -> None:
        self.boxes = boxes
        self.images = images
        self.carrying = Carrying()
        self.tasks = tasks
        self.tokenizers = tokenizers
        self.policy_client = policy_client
        self.incarnation = incarnation


class Rollout:
    """Played once. What is known so far is kept here, so that a broken attempt still tells its rounds."""

    def __init__(self, attempt: Attempt, means: Means) -> None:
        self._attempt = attempt
        self._request = attempt.request
        self._means = means
        self._use = BoxUse()
        self._started_at = time.time()
        self._marks = {"start": 0.0, "agent": 0.0, "grade": 0.0}
        self._rounds: list[Round] = []
        self._prompt_tokens = 0
        self._sampled_tokens = 0

    def play(self) -> Outcome | None:
        """The outcome; None if the attempt was cancelled."""
        try:
            with boundary("worker"):
                ending, report = self._play()
        except AttemptCancelledError:
            return None
        except BoundaryError as error:
            if self._attempt.cancelled:
                return None
            evidence = recordable(error.evidence)[:_EVIDENCE]
            ending = Ending(kind="infra", detail=error.boundary, evidence=evidence)
            report = GradeReport(verdict="none", score=None, error=f"{error.boundary}: {evidence}")
        return self._outcome(ending, report)

    def _play(self) -> tuple[Ending, GradeReport]:
        self._attempt.check()
        began = time.monotonic()
        task = self._built(self._task())
        policy = self._policy(task)
        spec = self._spec(task)
        with ExitStack() as carried:
            with self._means.boxes.lease(spec, self._attempt, self._use) as box:
                with boundary("box"):
                    box.restore(task.environment, links=bool(task.image))
                began = self._mark("start", began)
                ending = self._act(box, policy)
                began = self._mark("agent", began)
                load = carried.enter_context(self._means.carrying.load(self._request.profile.disk_bytes, self._attempt))
                problem = self._snapshot(box, load)
            report = problem or grade(self._means.boxes, task, load, self._attempt, self._use)
        self._mark("grade", began)
        if report.verdict == "none":
            ending = Ending(kind="infra", detail="task", evidence=report.error)
        return ending, report

    def _spec(self, task: TaskContent) -> BoxSpec:
        """Of the agent's box. What its list of hosts cannot be is the task's fault."""
        hosts = self._request.allowed_hosts
        if hosts:
            with boundary("task"):
                Allowlist.parse(hosts)
        spec = box_spec(self._attempt, task.workdir, _env(self._request.policy, task), task.image)
        return replace(spec, allowed_hosts=hosts)

    def _task(self) -> TaskContent:
        """What cannot be read, or is not what was imported, is our store's failure; what cannot be used, the task's."""
        with boundary("task"):
            try:
                return self._means.tasks.get(self._request.task_key, self._request.task_digest)
            except (StoreError, DamagedArchiveError) as error:
                raise BoundaryError("worker", describe(error)) from error

    def _built(self, task: TaskContent) -> TaskContent:
        """Before the agent starts: an environment that cannot be made is the task's fault, and never graded."""
        with boundary("task"):
            try:
                return with_image(task, self._means.images, box_limits(self._request.profile), self._attempt.check)
            except ImageError:
                raise
            except (SandboxError, StoreError, OSError) as error:
                raise BoundaryError("worker", describe(error)) from error

    def _mark(self, phase: str, began: float) -> float:
        now = time.monotonic()
        self._marks[phase] = now - began
        return now

    def _policy(self, task: TaskContent) -> Policy:
        call, limits = self._request.policy, self._request.limits
        with boundary("policy"):
            if isinstance(call, PolicyCall):
                if not call.token_ids:
                    return ChatPolicy(self._means.policy_client, call, limits, task.instruction)
                tokenizer = self._means.tokenizers.get(call.tokenizer_prefix)
                return TokenPolicy(self._means.policy_client, call, limits, tokenizer, task.instruction)
            scripted_tokenizer = self._means.tokenizers.get(call.tokenizer_prefix) if call.tokenizer_prefix else None
        return ScriptedPolicy(_scripts(call, task), limits, scripted_tokenizer, task.instruction)

    def _act(self, box: Box, policy: Policy) -> Ending:
        loop = RoundLoop(self._attempt, box, policy, self._rounds)
        try:
            return loop.play()
        finally:
            self._prompt_tokens, self._sampled_tokens = loop.prompt_tokens, loop.sampled_tokens

    def _snapshot(self, box: Box, load: Load) -> GradeReport | None:
        """Take the working folder up; where the agent left one that cannot be carried, the verdict that this earns."""
        try:
            with boundary("box"):
                load.archive = box.snapshot(limit=load.limit)
        except BoundaryError as error:
            if isinstance(error.__cause__, BoxFileError | BoxSpentError):
                return ungradable(error.__cause__)
            raise
        return None

    def _outcome(self, ending: Ending, report: GradeReport) -> Outcome:
        request = self._request
        return Outcome(
            rollout_id=request.rollout_id,
            run_id=request.run_id,
            attempt=request.attempt,
            fence=request.fence,
            incarnation=self._means.incarnation,
            ending=ending,
            rounds=tuple(self._rounds),
            grade=report,
            phases=Phases(waited=max(0.0, self._started_at - self._attempt.accepted_at), **self._marks),
            use=self._use.report(prompt_tokens=self._prompt_tokens, sampled_tokens=self._sampled_tokens),
            started_at=self._started_at,
            finished_at=time.time(),
            splits=sum(1 for played in self._rounds if played.split),
            task_digest=request.task_digest,
            isolation=self._means.boxes.isolation,
        )


def _scripts(call: ScriptedCall, task: TaskContent) -> tuple[str, ...]:
    if call.script == "nothing":
        return ()
    if not task.solution:
        raise BoundaryError("task", "the task has no reference solution")
    return task.solution


def _env(call: PolicyCall | ScriptedCall, task: TaskContent) -> tuple[tuple[str, str], ...]:
    """Of the box in which the policy acts."""
    is_reference = isinstance(call, ScriptedCall) and call.script == "reference"
    return task.env + task.solution_env if is_reference else task.env
