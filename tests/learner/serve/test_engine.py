import gc
import time
import weakref
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from learner.serve.cohort import Policy
from learner.serve.engine import Ask, Engine, EngineError
from learner.serve.weights import load_weights
from tests.learner.tiny import VOCAB, tiny_policy


@pytest.fixture
def engine() -> Engine:
    engine = Engine()
    engine.start()
    return engine


def test_a_prompt_that_cannot_be_read_fails_alone(tmp_path: Path, engine: Engine) -> None:
    weights, digest = load_weights(tiny_policy(tmp_path / "policy"), torch.float32)
    policy = Policy("tiny@0", "policies/tiny", digest, weights)
    sound = Ask(prompts=((5, 9, 7),), n=4, max_tokens=6, temperature=1.0, seed="s", stop=frozenset())
    broken = replace(sound, prompts=((5, 9, 7), (5, 9, VOCAB + 7)), n=2)
    try:
        asked = [engine.submit(policy, ask) for ask in (sound, broken, sound)]
        with pytest.raises(EngineError, match="IndexError"):
            asked[1].answer.result(30)
        assert [len(asked[place].answer.result(30)) for place in (0, 2)] == [4, 4]
        assert engine.busy(policy) == 0
    finally:
        engine.stop()


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
