"""An address is found with a slash at its end and without."""

import pytest
from django.test import Client

from apps.accounts.models import User

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("page", ["/runs/new", "/tasks", "/fleet", "/api/docs", "/api/v1/runs"])
def test_a_slash_too_many_leads_to_the_page_without_it(client: Client, page: str) -> None:
    answer = client.get(f"{page}/?q=a%20b")
    assert (answer.status_code, answer["Location"]) == (301, f"{page}?q=a%20b")


def test_a_slash_that_is_missing_leads_to_the_page_with_it(client: Client) -> None:
    assert client.get("/login?next=/tasks")["Location"] == "/login/?next=/tasks"


@pytest.mark.parametrize("page", ["/nothing/", "/tasks//", "/%2Fevil.example/", "/admin/nothing/"])
def test_what_is_nowhere_leads_nowhere(client: Client, page: str, db: None) -> None:
    client.force_login(User.objects.create_superuser("root"))
    assert client.get(page).status_code == 404


def test_what_is_sent_is_not_led_elsewhere(client: Client) -> None:
    assert client.post("/api/v1/runs/", {}).status_code == 404
