"""What the new-run form offers a user, and what the run would do, counted."""

from dataclasses import dataclass

from django.contrib.auth.models import AnonymousUser
from django.db.models import Count, Q

from apps.accounts.models import Project, User
from apps.policies.models import Policy
from apps.runs.config import RunConfig
from apps.tasks.models import TaskSet
from apps.tasks.states import USABLE


@dataclass(frozen=True)
class SetOption:
    task_set: TaskSet
    train: int
    held_out: int
    unseen: int
    unproven: int

    @property
    def ready(self) -> bool:
        """It has tasks, and all are proven."""
        return not self.unproven and bool(self.train + self.held_out + self.unseen)

    @property
    def words(self) -> str:
        parts = [f"{self.train} train", f"{self.held_out} held-out"]
        if self.unseen:
            parts.append(f"{self.unseen} unseen")
        parts.append("all admitted" if not self.unproven else f"{self.unproven} not proven yet")
        return ", ".join(parts)


@dataclass(frozen=True)
class Options:
    task_sets: list[SetOption]
    policies: list[Policy]

    @property
    def preferred(self) -> SetOption | None:
        """The newest whose tasks are all proven, else the newest."""
        return next(iter(self.task_sets), None)

    def set_of(self, key: str) -> TaskSet | None:
        return next((option.task_set for option in self.task_sets if str(option.task_set.pk) == key), None)

    def policy_of(self, key: str) -> Policy | None:
        return next((policy for policy in self.policies if str(policy.pk) == key), None)

    def option_of(self, key: str) -> SetOption | None:
        return next((option for option in self.task_sets if str(option.task_set.pk) == key), None)


def options(user: User | AnonymousUser) -> Options:
    """Task sets and policies of projects that the user sees, newest first; sets that are ready before the others."""
    of_split = {
        name: Count("entries", filter=Q(entries__split=split))
        for name, split in (("train", "train"), ("held_out", "held-out"), ("unseen", "unseen"))
    }
    counts = of_split | {"unproven": Count("entries", filter=~Q(entries__task_version__state__in=USABLE))}
    rows = TaskSet.objects.visible_to(user).select_related("project").annotate(**counts).order_by("-created_at", "-id")
    sets = [SetOption(row, **{name: getattr(row, name) for name in counts}) for row in rows]
    policies = Policy.objects.visible_to(user).select_related("project").order_by("-created_at", "-id")
    return Options(sorted(sets, key=lambda one: not one.ready), list(policies))


def may_launch(user: User | AnonymousUser) -> bool:
    """True if the user is an operator of any project."""
    return any(project.allows(user, "operator") for project in Project.objects.visible_to(user))


@dataclass(frozen=True)
class Estimate:
    """Counts that follow from the config alone; time and cost depend on the machine and are not guessed."""

    training_rollouts: int
    sft_samples: int
    evaluations: int
    evaluation_tries: int
    most_tokens: int


def estimate(config: RunConfig, option: SetOption | None, kind: str) -> Estimate:
    training = kind == "training"
    grpo = config.grpo_steps if training else 0
    between = grpo // config.evaluation_every if training and config.evaluation_every else 0
    if between and grpo % config.evaluation_every == 0:
        between -= 1
    whole = 1 + (1 if training and config.sft_steps and grpo else 0) + (1 if training else 0)
    tasks = (option.held_out + option.unseen) if option else 0
    rollouts = grpo * config.groups_per_step * config.group_size
    tries = tasks * (whole * config.evaluation_tries + between * config.interim_tries)
    return Estimate(
        training_rollouts=rollouts,
        sft_samples=config.sft_steps * config.sft_batch if training else 0,
        evaluations=whole + between,
        evaluation_tries=tries,
        most_tokens=(rollouts + tries) * config.context_tokens,
    )
