"""The run page against a run with real rows."""

import pytest
from django.test import Client

from tests.apps.dashboard.factory import training_run
from tests.apps.dashboard.people import make_user

pytestmark = pytest.mark.django_db


def test_the_answer_stands_first(client: Client) -> None:
    user = make_user("ana", "operator")
    run = training_run(user, sft=2, grpo=4, every=2, group_size=4, groups=2)
    client.force_login(user)
    page = client.get(f"/runs/{run.pk}").content.decode()
    print(page[:200])
    assert "Held-out completion" in page
