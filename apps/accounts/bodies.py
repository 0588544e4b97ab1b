"""What the API takes as a body: nothing that it does not know is ignored, and nothing is taken for what is near it."""

from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail, ValidationError


class BodySerializer(serializers.Serializer[Any]):
    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            known = sorted(name for name, field in self.fields.items() if not field.read_only)
            if unknown := [name for name in data if name not in known]:
                raise ValidationError({name: _unknown(str(name), known) for name in unknown})
        return super().to_internal_value(data)


class KeyField(serializers.IntegerField):
    """The key of a row: a whole number of JSON, or its decimal digits as text."""

    default_error_messages = {"invalid": "A key is a whole number, such as 1."}

    def to_internal_value(self, data: Any) -> int:
        digits = isinstance(data, str) and data.isascii() and data.isdecimal()
        if type(data) is not int and not digits:
            self.fail("invalid")
        return super().to_internal_value(data)


def _unknown(name: str, known: list[str]) -> ErrorDetail:
    return ErrorDetail(f"There is no field {name!r} to give. Known: {', '.join(known)}.", "unknown_field")
