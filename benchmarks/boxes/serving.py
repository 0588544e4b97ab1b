"""The arm's end of the pipe to the benchmark: one JSON object a line asks for a scenario, one answers it."""

import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from benchmarks.boxes import scenarios
from benchmarks.boxes.contract import Arm

SCENARIOS: dict[str, Callable[..., scenarios.Batch]] = {
    function.__name__: function
    for function in (
        scenarios.first_commands,
        scenarios.round_trips,
        scenarios.lifecycles,
        scenarios.overshoots,
        scenarios.flood,
        scenarios.crowd,
        scenarios.burst,
        scenarios.hold,
    )
}


def serve(make: Callable[[], Arm]) -> None:
    """Until the benchmark closes the pipe. What the arm prints goes to the error output, where nobody parses it."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        try:
            arm = make()
        except Exception as error:  # noqa: BLE001 (an arm that cannot run is a figure)
            traceback.print_exc()
            _say(answers, {"failed": f"{type(error).__name__}: {error}"})
            return
        _say(answers, {})
        for line in sys.stdin:
            _say(answers, _answer(arm, json.loads(line)))
        arm.close()


def _answer(arm: Arm, asked: dict[str, Any]) -> dict[str, Any]:
    name = asked.pop("scenario")
    try:
        if name == "reap":
            arm.reap()
            return {}
        return asdict(SCENARIOS[name](arm, **asked))
    except Exception as error:  # noqa: BLE001 (a batch that fails as a whole is a figure, too)
        traceback.print_exc()
        return {"failed": f"{type(error).__name__}: {error}"}


def _say(answers: Any, value: dict[str, Any]) -> None:
    answers.write(json.dumps(value) + "\n")
    answers.flush()
