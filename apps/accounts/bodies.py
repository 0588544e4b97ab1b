"""What the API takes as a body: a field that it does not know is refused, never ignored."""

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


def _unknown(name: str, known: list[str]) -> ErrorDetail:
    return ErrorDetail(f"There is no field {name!r} to give. Known: {', '.join(known)}.", "unknown_field")
