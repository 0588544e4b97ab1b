import gc
import time
import weakref
from pathlib import Path

import pytest
import torch

from learner.serve.cohort import Policy
from learner.serve.engine import Ask, Engine
from learner.serve.weights import load_weights
from tests.learner.tiny import tiny_policy


@pytest.fixture
def engine() -> Engine:
    engine = Engine()
    engine.start()
    return engine


def test_weights_that_nobody_samples_from_any_more_leave_memory_at_once(tmp_path: Path, engine: Engine) -> None:
    weights, digest = load_weights(tiny_policy(tmp_path / "policy"), torch.float32)
    policy = Policy("tiny@0", "policies/tiny", digest, weights)
    ask = Ask(prompts=((5, 9, 7),), n=4, max_tokens=6, temperature=1.0, seed="s", stop=frozenset())
    gc.disable()  # the collector would come too late: it counts objects, not their bytes
    try:
        ticket = engine.submit(policy, ask)
        assert len(ticket.answer.result(30)) == 4
        held = weakref.ref(policy)
        del ticket, policy, weights
        ended = time.monotonic() + 10
        while held() is not None and time.monotonic() < ended:
            time.sleep(0.05)
        assert held() is None
    finally:
        gc.enable()
        engine.stop()
