import json
from typing import Any

import msgspec
import pytest

from sandbox_worker.batch import BadBatchError, decode_batch
from tests.sandbox_worker.factories import batch_of, policy_call, rollout_request

REQUEST = rollout_request(("tasks/x.tar", "0" * 64), policy_call("http://127.0.0.1:1"))


def sent(**changes: Any) -> Any:
    """A batch as it comes from the broker, with changes."""
    return json.loads(msgspec.json.encode(batch_of(REQUEST))) | changes


def test_a_batch_survives_the_wire() -> None:
    assert decode_batch(sent()) == batch_of(REQUEST)


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        (sent(run_id="seven"), r"\$\.run_id"),
        (sent(version=99), r"\$\.version"),
        (sent(surprise=1), "surprise"),
        (sent(requests=[{"rollout_id": 1}]), r"\$\.requests\[0\]"),
        (sent(requests=sent()["requests"] * 33), r"\$\.requests"),
        (sent(requests=[sent()["requests"][0] | {"run_id": 8}]), r"\$\.requests"),
        (None, "expected|Expected"),
        ([], "expected|Expected"),
    ],
)
def test_a_bad_batch_is_refused_with_its_field(payload: Any, field: str) -> None:
    with pytest.raises(BadBatchError, match=field):
        decode_batch(payload)
