"""Tokens: shown once, usable until revoked, each its owner's alone."""

import io
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from apps.accounts.models import ApiToken, User
from tests.apps.making import client_of, make_user

pytestmark = pytest.mark.django_db
TOKENS = "/api/v1/tokens"


def issue(client: Client, **body: object) -> dict[str, Any]:
    response = client.post(TOKENS, body, content_type="application/json")
    assert response.status_code == 201
    issued: dict[str, Any] = response.json()
    return issued


def bearer(text: object) -> Client:
    return Client(headers={"Authorization": f"Bearer {text}"})


def browser_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_without_a_token_there_is_a_challenge_and_a_problem() -> None:
    response = Client().get("/api/v1/runs")
    assert response.status_code == 401
    assert response["WWW-Authenticate"].startswith("Bearer")
    assert response["Content-Type"] == "application/problem+json"
    assert response["X-Api-Version"] == "1"


def test_a_session_issues_a_token_that_then_works_alone() -> None:
    issued = issue(browser_of(make_user("ann", "viewer")), name="nightly")
    assert bearer(issued["token"]).get("/api/v1/runs").status_code == 200


def test_a_token_issues_none_that_could_outlive_it() -> None:
    client = client_of(make_user("ann"))
    response = client.post(TOKENS, {"name": "for good"}, content_type="application/json")
    assert response.status_code == 403
    assert response.json()["detail"] == "A token issues no tokens. Sign in, or use `manage.py issue_token`."
    assert ApiToken.objects.count() == 1


def test_the_secret_is_shown_once_and_not_kept() -> None:
    client = browser_of(make_user("ann"))
    issued = issue(client, name="nightly")
    secret = str(issued["token"]).partition(".")[2]
    assert secret not in client.get(TOKENS).content.decode()
    assert not any(secret in str(row) for row in ApiToken.objects.values())


def test_a_revoked_token_opens_nothing_and_its_row_stays() -> None:
    client = browser_of(make_user("ann"))
    issued = issue(client, name="nightly")
    assert client.delete(f"{TOKENS}/{issued['id']}").status_code == 204
    assert bearer(issued["token"]).get(TOKENS).status_code == 401
    assert ApiToken.objects.get(pk=issued["id"]).revoked_at is not None


def test_who_comes_with_an_unknown_token_hears_where_one_is_made() -> None:
    said = bearer("assay_nobody.secret").get(TOKENS).content.decode()
    assert "manage.py issue_token" in said
    assert "POST /api/v1/tokens" in said


def test_an_expired_token_opens_nothing() -> None:
    client = browser_of(make_user("ann"))
    issued = issue(client, name="old", expires_at=(timezone.now() - timedelta(days=1)).isoformat())
    assert bearer(issued["token"]).get(TOKENS).status_code == 401


def test_nobody_finds_the_tokens_of_others() -> None:
    theirs, _ = ApiToken.issue(make_user("bob"), "his")
    client = client_of(make_user("ann"))
    assert theirs.key_id not in client.get(TOKENS).content.decode()
    assert client.delete(f"{TOKENS}/{theirs.pk}").status_code == 404


def test_a_browser_without_the_csrf_token_issues_nothing() -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(make_user("ann"))
    assert browser.post(TOKENS, {"name": "x"}, content_type="application/json").status_code == 403


def test_the_command_prints_a_token_that_works() -> None:
    make_user("ann", "viewer")
    printed = io.StringIO()
    call_command("issue_token", "ann", "shell", stdout=printed)
    assert bearer(printed.getvalue().strip()).get(TOKENS).status_code == 200
    with pytest.raises(CommandError, match="no active user"):
        call_command("issue_token", "nobody", "shell")
