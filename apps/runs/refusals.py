"""What a run refuses, as errors of the API: which field stands in the way, its value, and the way out."""

from rest_framework import status
from rest_framework.exceptions import APIException, ErrorDetail, ValidationError

from apps.runs.config import ConfigError, RunConfig
from apps.runs.control import ControlError
from apps.runs.launch import KeyReusedError, LaunchError

SETTINGS = frozenset(RunConfig.__struct_fields__)
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
    if isinstance(error, ConfigError):
        return UnprocessableError({"config": {one.field: _detail(one.value, one.way_out) for one in error.bad}})
    detail = _detail(error.value, error.way_out)
    if error.field in SETTINGS:
        return UnprocessableError({"config": {error.field: detail}})
    return UnprocessableError({error.field if error.field in OF_THE_BODY else "non_field_errors": detail})


def _detail(value: object, way_out: str) -> ErrorDetail:
    return ErrorDetail(f"{way_out} Given: {value!r}.", "unusable")
