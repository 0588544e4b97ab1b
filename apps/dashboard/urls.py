"""Addresses of the pages."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path, re_path

from apps.dashboard.views import fleet, frame, new_run, rollouts, run, runs, tasks

app_name = "dashboard"

urlpatterns = [
    path("", runs.runs, name="runs"),
    path("login/", LoginView.as_view(redirect_authenticated_user=True), name="sign_in"),
    path("logout/", LogoutView.as_view(), name="sign_out"),
    path("search", frame.search, name="search"),
    path("runs/new", new_run.new_run, name="run_new"),
    path("runs/new/estimate", new_run.new_run_estimate, name="run_new_estimate"),
    path("runs/<int:pk>", run.run, name="run"),
    path("runs/<int:pk>/live", run.run_live, name="run_live"),
    path("runs/<int:pk>/series.json", run.run_series, name="run_series"),
    path("runs/<int:pk>/rollouts", rollouts.rollouts, name="run_rollouts"),
    path("runs/<int:pk>/events", run.run_events, name="run_events"),
    path("runs/<int:pk>/config", run.run_config, name="run_config"),
    re_path(r"^runs/(?P<pk>[0-9]{1,18})/(?P<verb>pause|resume|cancel)$", run.run_verb, name="run_verb"),
    path("rollouts/<int:pk>", rollouts.rollout, name="rollout"),
    path("tasks", tasks.tasks_page, name="tasks"),
    path("tasks/<int:pk>", tasks.task_page, name="task"),
    path("fleet", fleet.fleet_page, name="fleet"),
    path("policies", fleet.policies_page, name="policies"),
]
