"""Pages of the API's lists by key, newest first, along a total order: nothing is skipped or repeated while rows arrive.

A view names its order as `newest_first`, ending in a unique column.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import DateTimeField, Model, Q, QuerySet
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param
from rest_framework.views import APIView

DEFAULT_LIMIT = 50
MOST = 500
LONGEST_CURSOR = 400
PARAMETERS = ("limit", "cursor", "count")

Key = tuple[int | datetime, ...]


class KeysetPagination(BasePagination):
    """?limit=50&cursor=...&count=true; `next` is the address of the next page, or null."""

    def paginate_queryset(self, queryset: QuerySet[Any], request: Request, view: APIView | None = None) -> list[Any]:
        order: Sequence[str] = getattr(view, "newest_first", ("id",))
        limit = _limit(request.query_params.get("limit"))
        self.total = queryset.count() if _wants_count(request.query_params.get("count")) else None
        if cursor := request.query_params.get("cursor"):
            queryset = queryset.filter(_older_than(order, _decode(cursor, _kinds(queryset.model, order))))
        rows = list(queryset.order_by(*(f"-{name}" for name in order))[: limit + 1])
        self.next: str | None = None
        if len(rows) > limit:
            last = _encode([_value(rows[limit - 1], name) for name in order])
            self.next = replace_query_param(request.build_absolute_uri(), "cursor", last)
        return rows[:limit]

    def get_paginated_response(self, data: Any) -> Response:
        counted = {} if self.total is None else {"count": self.total}
        return Response({"next": self.next, **counted, "results": data})

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "required": ["next", "results"],
            "properties": {
                "next": {"type": ["string", "null"], "format": "uri", "description": "Address of the next page."},
                "count": {"type": "integer", "description": "Of all matching rows; only with count=true."},
                "results": schema,
            },
        }

    def get_schema_operation_parameters(self, view: APIView) -> list[dict[str, Any]]:
        limit = {"type": "integer", "minimum": 1, "maximum": MOST, "default": DEFAULT_LIMIT}
        return [
            _parameter("limit", limit, "Rows a page. More than the maximum is refused, not cut."),
            _parameter("cursor", {"type": "string"}, "Where the page starts, as `next` of the page before has it."),
            _parameter("count", {"type": "boolean", "default": False}, "Count all matching rows too."),
        ]


def _parameter(name: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}


def _limit(text: str | None) -> int:
    if text is None:
        return DEFAULT_LIMIT
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= MOST):
        raise ValidationError({"limit": f"A whole number from 1 to {MOST}."})
    return int(text)


def _wants_count(text: str | None) -> bool:
    if text not in (None, "true", "false"):
        raise ValidationError({"count": "true or false."})
    return text == "true"


def _older_than(order: Sequence[str], key: Key) -> Q:
    """Rows behind the key in the descending order: (a, b) < (x, y)."""
    found = Q()
    for place, name in enumerate(order):
        same = Q(**dict(zip(order[:place], key[:place], strict=True)))
        found |= same & Q(**{f"{name}__lt": key[place]})
    return found


def _value(row: Any, name: str) -> int | datetime:
    found: int | datetime = row[name] if isinstance(row, Mapping) else getattr(row, name)
    return found


def _encode(key: Sequence[int | datetime]) -> str:
    text = json.dumps([value.isoformat() if isinstance(value, datetime) else value for value in key])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _kinds(model: type[Model], order: Sequence[str]) -> list[type[int] | type[datetime]]:
    """What each column of the order holds."""
    options = model._meta  # noqa: SLF001  Django documents it
    fields = [options.pk if name == "pk" else options.get_field(name) for name in order]
    return [datetime if isinstance(field, DateTimeField) else int for field in fields]


def _decode(cursor: str, kinds: Sequence[type[int] | type[datetime]]) -> Key:
    key = _key(cursor) if len(cursor) <= LONGEST_CURSOR else ()
    if len(key) != len(kinds) or not all(map(_fits, key, kinds)):
        raise ValidationError({"cursor": "This cursor was not made by this list. Start without one."})
    return key


def _key(cursor: str) -> Key:
    """Empty for what is none."""
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        return tuple(datetime.fromisoformat(value) if isinstance(value, str) else value for value in values)
    except (ValueError, TypeError):
        return ()


def _fits(value: object, kind: type[int] | type[datetime]) -> bool:
    if isinstance(value, datetime):
        return kind is datetime and value.tzinfo is not None
    return kind is int and type(value) is int and abs(value) < 2**63
