"""Answers to htmx."""

import pytest
from django.test import Client

from apps.accounts.models import User

HTMX = {"HX-Request": "true", "HX-Target": "run-rows"}


def test_rows_asked_for_after_the_session_ended_load_the_page_anew(client: Client, db: None) -> None:
    answer = client.get("/", headers=HTMX)
    assert (answer.status_code, answer["HX-Refresh"], answer.content) == (200, "true", b"")


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_pages_and_fragments_are_told_apart_by_caches(client: Client, db: None, headers: dict[str, str]) -> None:
    client.force_login(User.objects.create_user("ana"))
    answer = client.get("/", headers=headers)
    assert {"HX-Request", "HX-Target"} <= {name.strip() for name in answer["Vary"].split(",")}
    assert "HX-Refresh" not in answer
