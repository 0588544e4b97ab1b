"""What a run refuses, as errors of the API: which field stands in the way, its value, and the way out."""

from typing import Any

import msgspec
from rest_framework import status
from rest_framework.exceptions import APIException, ErrorDetail, ValidationError

from apps.runs.config import ConfigError, RunConfig
from apps.runs.control import ControlError
from apps.runs.launch import KeyReusedError, LaunchError

SETTINGS = frozenset(field.name for field in msgspec.structs.fields(RunConfig))
OF_THE_BODY = frozenset({"name", "task_set", "policy", "preset", "config", "endpoint"})


class UnprocessableError(ValidationError):
    """The request is well-formed, and cannot be done as asked."""

    status_code = status.HTTP_422_UNPROCESSABLE_ENTITY


class KeyConflictError(APIException):
    status_code = status.HTTP_422_UNPROCESSABLE_ENTITY
    default_code = "idempotency_key_reused"


class VerbRefusedError(APIException):
    status_code = status.HTTP_409_CONFLICT
    default_code = "run_state"


def refusal_of(error: LaunchError | ConfigError | KeyReusedError | ControlError) -> APIException:
    """The API's error for one of ours."""
    if isinstance(error, KeyReusedError):
        return KeyConflictError(str(error))
    if isinstance(error, ControlError):
        return VerbRefusedError(str(error))
    in_config = isinstance(error, ConfigError) or error.field in SETTINGS
    return UnprocessableError(_at(error.field, error.value, error.way_out, in_config=in_config))


def _at(field: str, value: object, way_out: str, *, in_config: bool) -> dict[str, Any]:
    detail = ErrorDetail(f"{way_out} Given: {value!r}.", "unusable")
    if in_config:
        return {"config": detail if field == "config" else {field: detail}}
    return {field if field in OF_THE_BODY else "non_field_errors": detail}
