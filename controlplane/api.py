"""The REST API: each resource is registered here, in the order of the data."""

from rest_framework.routers import SimpleRouter

from apps.accounts.api import TokenViewSet
from apps.policies.api import PolicyViewSet
from apps.runs.api import PresetViewSet, RunViewSet
from apps.tasks.api import TaskSetEntryViewSet, TaskSetViewSet, TaskViewSet

router = SimpleRouter(trailing_slash=False)
router.register("tokens", TokenViewSet, "token")
router.register("tasks", TaskViewSet, "task")
router.register("task-sets", TaskSetViewSet, "task-set")
router.register(r"task-sets/(?P<task_set_id>[0-9]+)/entries", TaskSetEntryViewSet, "task-set-entry")
router.register("policies", PolicyViewSet, "policy")
router.register("presets", PresetViewSet, "preset")
router.register("runs", RunViewSet, "run")

urlpatterns = router.urls
