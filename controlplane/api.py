"""The REST API: each resource is registered here, in the order of the data."""

from django.urls import path
from rest_framework.routers import SimpleRouter

from apps.accounts.api import TokenViewSet
from apps.buffer.api import RunLedger
from apps.evaluation.api import EvaluationViewSet, RunMetrics
from apps.exports.api import RunExport
from apps.pipeline.api import RunWaiting
from apps.policies.api import PolicyViewSet
from apps.rewards.api import RolloutViewSet
from apps.runs.api import PresetViewSet, RunViewSet
from apps.tasks.api import TaskSetEntryViewSet, TaskSetViewSet, TaskViewSet
from apps.trajectories.api import TrajectoryViewSet

router = SimpleRouter(trailing_slash=False)
router.register("tokens", TokenViewSet, "token")
router.register("tasks", TaskViewSet, "task")
router.register("task-sets", TaskSetViewSet, "task-set")
router.register(r"task-sets/(?P<task_set_id>[0-9]+)/entries", TaskSetEntryViewSet, "task-set-entry")
router.register("policies", PolicyViewSet, "policy")
router.register("presets", PresetViewSet, "preset")
router.register("runs", RunViewSet, "run")
router.register("rollouts", RolloutViewSet, "rollout")
router.register("trajectories", TrajectoryViewSet, "trajectory")
router.register("evaluations", EvaluationViewSet, "evaluation")

urlpatterns = [
    *router.urls,
    path("runs/<int:run_id>/ledger", RunLedger.as_view(), name="run-ledger"),
    path("runs/<int:run_id>/metrics", RunMetrics.as_view(), name="run-metrics"),
    path("runs/<int:run_id>/waiting", RunWaiting.as_view(), name="run-waiting"),
    path("runs/<int:run_id>/export", RunExport.as_view(), name="run-export"),
]
