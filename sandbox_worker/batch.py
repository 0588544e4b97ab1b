"""The message that brings work, checked before any of it starts."""

import msgspec

from sandbox_worker.errors import SandboxWorkerError
from sandbox_worker.messages import BATCH_SIZE, RolloutBatch

KNOWN_VERSION = 1


class BadBatchError(SandboxWorkerError):
    """A message that is no batch; names the field."""


def decode_batch(payload: object) -> RolloutBatch:
    """Raises BadBatchError."""
    try:
        batch = msgspec.convert(payload, RolloutBatch)
    except msgspec.ValidationError as error:
        raise BadBatchError(f"batch refused: {error}") from error
    if batch.version != KNOWN_VERSION:
        raise BadBatchError(f"batch refused: version {batch.version} is not known - at `$.version`")
    if len(batch.requests) > BATCH_SIZE:
        raise BadBatchError(f"batch refused: more than {BATCH_SIZE} requests - at `$.requests`")
    if any(request.run_id != batch.run_id for request in batch.requests):
        raise BadBatchError("batch refused: a request of another run - at `$.requests`")
    return batch
