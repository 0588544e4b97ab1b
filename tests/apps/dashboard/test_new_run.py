"""The new-run form: every wrong field named with its value and the way out, and one run for one intent."""

import pytest
from django.test import Client

from apps.accounts.models import Project
from apps.dashboard.new_run import GROUPS, from_preset, parse, preset_named
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.tasks.models import TaskSet
from apps.trajectories.store import object_store
from tests.apps.dashboard.people import make_endpoint, make_policy, make_task_set, make_user, make_version


def test_every_setting_of_the_config_has_a_place_in_the_form() -> None:
    shown = [setting.name for group in GROUPS for setting in group.settings]
    assert sorted(shown) == sorted(RunConfig.__struct_fields__)


def test_a_preset_typed_back_is_itself() -> None:
    preset = preset_named("warm-grpo")
    typed = from_preset(preset)
    assert parse({"preset": "warm-grpo", **typed.values}).config == preset.config
    assert typed.changed() == []


def test_every_wrong_field_is_named_at_once() -> None:
    typed = parse({"preset": "grpo", "group_size": "1", "learning_rate": "fast", "grpo_steps": "", "max_seconds": ""})
    assert typed.config is None
    assert {error.field: error.value for error in typed.errors} == {
        "group_size": "1",
        "learning_rate": "fast",
        "grpo_steps": "",
    }
    assert {error.way_out for error in typed.errors} == {
        "Use a whole number of at least 2.",
        "This is no number.",
        "Give a number.",
    }


@pytest.mark.parametrize("text", ["1e400", "inf", "-inf", "nan", str(2**70), "9" * 5000])
def test_a_number_that_no_run_can_use_is_wrong_in_every_field(text: str) -> None:
    fields = {setting.name: text for group in GROUPS for setting in group.settings}
    wrong = {error.field: error.way_out for error in parse({"preset": "grpo", **fields}).errors}
    assert wrong.keys() == fields.keys()
    assert all(way_out.startswith(("Use a", "This is no")) for way_out in wrong.values())


def test_a_change_is_told_against_the_preset() -> None:
    assert parse({"preset": "grpo", "group_size": "16"}).changed() == [("Group size", "8", "16")]


@pytest.mark.django_db
def test_a_valid_form_starts_one_run_whatever_is_pressed_twice(client: Client) -> None:
    user, form = _ready(client)
    first = client.post("/runs/new", form)
    second = client.post("/runs/new", form)
    assert first.status_code == 302
    assert first["Location"] == second["Location"]
    run = Run.objects.get()
    assert (run.state, run.created_by, run.config.group_size) == ("queued", user, 4)


@pytest.mark.django_db
def test_the_same_form_with_other_values_is_shown_again_and_then_starts_another_run(client: Client) -> None:
    _, form = _ready(client)
    first = client.post("/runs/new", form)
    for change in ({"group_size": "8"}, {"name": "second"}):
        answer = client.post("/runs/new", form | change)
        page = answer.content.decode()
        assert answer.status_code == 422
        assert "Nothing was started now." in page
        assert first["Location"] in page
    key = page.split('name="idempotency_key" value="')[1].split('"')[0]
    assert key not in ("", "once")
    assert 'value="second"' in page
    second = client.post("/runs/new", form | {"name": "second", "idempotency_key": key})
    assert (second.status_code, Run.objects.count()) == (302, 2)


@pytest.mark.django_db
def test_a_name_that_cannot_be_kept_is_named(client: Client) -> None:
    _, form = _ready(client)
    answer = client.post("/runs/new", form | {"name": "a\0b"})
    assert answer.status_code == 422
    assert "Use no NUL characters." in answer.content.decode()
    assert client.post("/runs/new", form | {"idempotency_key": "\0"}).status_code == 400
    assert client.post("/runs/new", form | {"group_size": "4\0", "task_set": "\0", "policy": "\0"}).status_code == 422
    assert not Run.objects.exists()


@pytest.mark.django_db
def test_the_newest_proven_task_set_is_chosen_at_first(client: Client) -> None:
    _, form = _ready(client)
    project = Project.default()
    entry = make_version(project, object_store(), "fresh", "fresh", state="imported")
    fresh = TaskSet.freeze(project, "fresh", [(entry, "train")])
    page = client.get("/runs/new").content.decode()
    assert f'<option value="{form["task_set"]}" selected>' in page
    assert page.index(f'<option value="{form["task_set"]}" selected>') < page.index(f'<option value="{fresh.pk}">')
    assert "all admitted" in page


@pytest.mark.django_db
def test_nothing_is_started_by_a_wrong_form(client: Client) -> None:
    _, form = _ready(client)
    answer = client.post("/runs/new", form | {"group_size": "<b>1</b>", "name": "kept"})
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "Nothing was started." in page
    assert "&lt;b&gt;1&lt;/b&gt;" in page
    assert "<b>1</b>" not in page
    assert 'value="kept"' in page
    assert not Run.objects.exists()


@pytest.mark.django_db
def test_a_launch_that_is_refused_names_the_field(client: Client) -> None:
    _, form = _ready(client)
    page = client.post("/runs/new", form | {"name": "  "}).content.decode()
    assert "Give the run a name." in page
    assert not Run.objects.exists()


@pytest.mark.django_db
def test_a_viewer_is_told_which_role_it_takes(client: Client) -> None:
    _, form = _ready(client)
    client.force_login(make_user("vera", "viewer"))
    assert "needs the role operator" in client.get("/runs/new").content.decode()
    assert client.post("/runs/new", form).status_code == 422
    assert not Run.objects.exists()


@pytest.mark.django_db
def test_a_stranger_s_task_set_is_no_choice(client: Client) -> None:
    _, form = _ready(client)
    client.force_login(make_user("eve", "operator", Project.objects.create(slug="other", name="Other")))
    answer = client.post("/runs/new", form)
    assert "Choose one of the task sets." not in client.get("/runs/new").content.decode()
    assert answer.status_code == 422
    assert not Run.objects.exists()


@pytest.mark.django_db
def test_the_estimate_follows_the_settings(client: Client) -> None:
    _, form = _ready(client)
    page = client.get(
        "/runs/new/estimate", form | {"grpo_steps": "10", "groups_per_step": "4", "group_size": "4"}
    ).content.decode()
    assert ">160<" in page


def _ready(client: Client) -> tuple[object, dict[str, str]]:
    user = make_user("ana", "operator")
    project = Project.default()
    task_set = make_task_set(project, object_store(), train=1, held_out=1, unseen=0)
    policy = make_policy(project)
    make_endpoint()
    client.force_login(user)
    form = {"preset": "grpo", "name": "first", "task_set": str(task_set.pk), "policy": str(policy.pk)}
    return user, form | {"group_size": "4", "idempotency_key": "once"}
