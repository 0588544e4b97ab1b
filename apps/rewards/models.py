"""Rewards: a number made of a grade by a formula of known version. Old ones stay when a run is scored anew."""

from django.db import models
from django.utils import timezone

from apps.runs.models import Run
from apps.trajectories.models import Trajectory


class Reward(models.Model):
    """The reward of one trajectory under one formula."""

    trajectory = models.ForeignKey(Trajectory, models.CASCADE, related_name="rewards")
    run = models.ForeignKey(Run, models.CASCADE, related_name="rewards")
    formula = models.CharField(max_length=60)
    value = models.FloatField()
    at = models.DateTimeField(default=timezone.now)

    objects = models.Manager["Reward"]()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["trajectory", "formula"], name="reward_once")]

    def __str__(self) -> str:
        return f"{self.value} by {self.formula}"
