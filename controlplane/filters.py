"""Filters of the API's lists, declared by a view as a serializer `filters`: a field's source is the lookup it becomes.

A name that is not declared is refused, never ignored.
"""

from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail, ValidationError
from rest_framework.filters import BaseFilterBackend
from rest_framework.request import Request
from rest_framework.views import APIView

from controlplane.pagination import PARAMETERS

Filters = type[serializers.Serializer[Any]]


class DeclaredFilters(BaseFilterBackend):
    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: APIView) -> QuerySet[Any]:
        declared: Filters = getattr(view, "filters", serializers.Serializer)
        given = request.query_params
        known = [*declared().fields, *(PARAMETERS if getattr(view, "pagination_class", None) else ())]
        problems = {name: _unknown(name, known) for name in given if name not in known}
        problems |= {name: ErrorDetail("Give it once.", "repeated") for name in given if len(given.getlist(name)) > 1}
        if problems:
            raise ValidationError(problems)
        form = declared(data=given.dict())
        form.is_valid(raise_exception=True)
        return queryset.filter(**form.validated_data)

    def get_schema_operation_parameters(self, view: APIView) -> list[dict[str, Any]]:
        declared: Filters = getattr(view, "filters", serializers.Serializer)
        return [_parameter(name, field) for name, field in declared().fields.items()]


def _unknown(name: str, known: list[str]) -> ErrorDetail:
    return ErrorDetail(f"There is no filter {name!r}. Known: {', '.join(sorted(known))}.", "unknown_filter")


def _parameter(name: str, field: serializers.Field[Any, Any, Any, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if isinstance(field, serializers.ChoiceField):
        schema["enum"] = list(field.choices)
    elif isinstance(field, serializers.IntegerField):
        schema["type"] = "integer"
    elif isinstance(field, serializers.BooleanField):
        schema["type"] = "boolean"
    return {"name": name, "in": "query", "required": False, "description": str(field.help_text or ""), "schema": schema}
