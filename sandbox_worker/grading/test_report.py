"""The single checks in a CTRF report beside the reward: shown, never counted, so read with tolerance."""

import json
import logging
from collections.abc import Mapping

from sandbox_worker.messages import Check
from sandbox_worker.observation import recordable

log = logging.getLogger(__name__)

MOST_BYTES = 1 * 2**20
_MOST_CHECKS = 500
_SHOWN = 500


def read_checks(data: bytes) -> tuple[Check, ...]:
    """The checks of a ctrf.json; nothing where it is not one."""
    try:
        tests = json.loads(data)["results"]["tests"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        log.info("a test report is not CTRF: %s", error)
        return ()
    if not isinstance(tests, list):
        return ()
    return tuple(_check(test) for test in tests[:_MOST_CHECKS] if isinstance(test, Mapping) and "name" in test)


def _check(test: Mapping[str, object]) -> Check:
    return Check(
        name=recordable(str(test["name"])[:_SHOWN]),
        passed=test.get("status") == "passed",
        detail=recordable(str(test.get("message") or test.get("trace") or "")[:_SHOWN]),
    )
