"""Exports: everything that matches, one JSON object a line, and a last line that proves it."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import msgspec
import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.http import StreamingHttpResponse
from django.test import Client

from apps.runs.models import Run
from tests.apps.making import client_of, make_run, make_user, play

# An export gives its connection back, which a test inside of one transaction could not bear.
pytestmark = pytest.mark.django_db(transaction=True)


def lines(client: Client, run: Run, query: str = "") -> list[dict[str, Any]]:
    response: Any = client.get(f"/api/v1/runs/{run.pk}/export{query}", headers={"Accept": "application/x-ndjson"})
    assert isinstance(response, StreamingHttpResponse)
    assert response["Content-Type"] == "application/x-ndjson"
    content: Any = response.streaming_content  # asynchronous, as the view made it
    return [msgspec.json.decode(line) for line in async_to_sync(_read)(content).splitlines()]


async def _read(content: AsyncIterator[bytes]) -> bytes:
    return b"".join([part async for part in content])


def test_every_rollout_is_a_line_with_its_reward_and_grade() -> None:
    run, client = make_run(), client_of(make_user("ann", "viewer"))
    play(run, ["solved", "unsolved"])
    head, first, second, end = lines(client, run)
    assert (head["kind"], head["run"], head["schema_version"]) == ("export", run.pk, 1)
    assert (first["verdict"], first["reward"], second["reward"]) == ("solved", 1.0, 0.0)
    assert first["grade"]["checks"] == [{"name": "counts", "passed": True, "detail": ""}]
    assert (end["kind"], end["rollouts"]) == ("end", 2)


def test_more_than_one_page_is_exported_whole() -> None:
    run, client = make_run(), client_of(make_user("ann", "viewer"))
    made = [rollout for _ in range(6) for rollout in play(run, ["solved"] * 100)]
    found = lines(client, run)
    assert [row["id"] for row in found[1:-1]] == sorted(made)
    assert found[-1]["rollouts"] == 600


def test_a_reader_that_stalls_holds_no_connection() -> None:
    run, client = make_run(), client_of(make_user("ann", "viewer"))
    play(run, ["solved"])
    response: Any = client.get(f"/api/v1/runs/{run.pk}/export")
    assert connection.connection is not None
    async_to_sync(_read_two_parts)(response.streaming_content)
    assert connection.connection is None


async def _read_two_parts(content: AsyncGenerator[bytes]) -> None:
    """The first line and the first page."""
    await anext(content)
    await anext(content)
    await content.aclose()


def test_an_export_takes_the_filters_of_the_list() -> None:
    run, client = make_run(), client_of(make_user("ann", "viewer"))
    play(run, ["solved", "unsolved", "none"])
    found = lines(client, run, "?verdict=unsolved")
    assert [row["verdict"] for row in found[1:-1]] == ["unsolved"]
    assert found[0]["filters"] == {"verdict": "unsolved"}


@pytest.mark.parametrize("query", ["?verdit=solved", "?limit=3", "?run=1"])
def test_what_it_does_not_know_is_a_problem_also_for_who_asks_for_lines(query: str) -> None:
    run, client = make_run(), client_of(make_user("ann", "viewer"))
    response = client.get(f"/api/v1/runs/{run.pk}/export{query}", headers={"Accept": "application/x-ndjson"})
    assert response.status_code == 400
    assert response["Content-Type"] == "application/problem+json"
    assert msgspec.json.decode(response.content)["errors"][0]["code"] == "unknown_filter"
