"""Policies by the API."""

import pytest

from tests.apps.making import client_of, make_policy, make_project, make_user

pytestmark = pytest.mark.django_db


def test_a_policy_is_found_by_its_members_alone() -> None:
    mine, other = make_policy(), make_policy(make_project("other"))
    client = client_of(make_user("ann", "viewer"))
    assert client.get(f"/api/v1/policies/{mine.pk}").json()["name"] == "small"
    assert client.get(f"/api/v1/policies/{other.pk}").status_code == 404
    assert [row["id"] for row in client.get("/api/v1/policies?state=ready").json()["results"]] == [mine.pk]
