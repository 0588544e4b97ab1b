"""The probes."""

import pytest
from django.test import Client


def test_a_living_process_says_so_without_its_servers(client: Client) -> None:
    response = client.get("/healthz")
    assert response.status_code == 200
    assert response.json() == {"status": "ok"}


@pytest.mark.django_db
def test_a_process_whose_servers_answer_is_ready(client: Client) -> None:
    response = client.get("/readyz")
    assert response.json() == {"status": "ready", "database": True, "channels": True}


def test_every_answer_carries_the_policy_of_the_pages(client: Client) -> None:
    response = client.get("/healthz")
    policy = response["Content-Security-Policy"]
    for directive in (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
    ):
        assert directive in policy
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["X-Frame-Options"] == "DENY"
    assert response["Referrer-Policy"] == "same-origin"


@pytest.mark.django_db
def test_a_request_for_another_host_is_refused(client: Client) -> None:
    assert client.get("/healthz", headers={"Host": "evil.example"}).status_code == 400
