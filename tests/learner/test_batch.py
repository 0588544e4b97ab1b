import random

import msgspec
import pytest

from learner.batch import BatchError, plan_step
from tests.learner.tiny import group, groups


def test_flat_groups_and_groups_of_one_are_counted_and_not_learned_from() -> None:
    plan = plan_step("grpo", groups(), 1e-6)
    assert (plan.flat_groups, plan.single_groups, len(plan.groups)) == (1, 1, 2)


def test_flat_groups_stand_outside_the_denominators() -> None:
    assert plan_step("grpo", groups(), 1e-6).groups == plan_step("grpo", groups()[:2], 1e-6).groups


def test_a_split_trajectory_weighs_as_much_as_a_whole_one() -> None:
    whole = group(1, (1.0, 0.0), random.Random(0))
    first = whole.samples[0]
    place = first.trainable.index(True) + 1
    early = msgspec.structs.replace(
        first, ids=first.ids[:place], trainable=first.trainable[:place], logprobs=first.logprobs[:1]
    )
    late = msgspec.structs.replace(
        first, trainable=(*(False,) * place, *first.trainable[place:]), logprobs=first.logprobs[1:]
    )
    split = msgspec.structs.replace(whole, samples=(early, late, whole.samples[1]), sample_rewards=(1.0, 1.0, 0.0))
    whole_weights = [lesson.weight for lesson in plan_step("grpo", [whole], 1e-6).lessons]
    split_weights = [lesson.weight for lesson in plan_step("grpo", [split], 1e-6).lessons]
    assert split_weights == [whole_weights[0], whole_weights[0], whole_weights[1]]


def test_sft_weighs_every_trainable_token_alike() -> None:
    plan = plan_step("sft", groups(), 1e-6)
    assert {lesson.weight for lesson in plan.lessons} == {
        1 / sum(sum(lesson.sample.trainable) for lesson in plan.lessons)
    }


def test_a_group_that_contradicts_itself_is_refused() -> None:
    good = groups()[0]
    for broken in (
        msgspec.structs.replace(good, rewards=good.rewards[1:]),
        msgspec.structs.replace(good, trajectory_ids=(1, 1, 2, 3)),
        msgspec.structs.replace(good, trajectory_ids=(1, 2, 3, 4)),
        msgspec.structs.replace(
            good, samples=(msgspec.structs.replace(good.samples[0], logprobs=()), *good.samples[1:])
        ),
    ):
        with pytest.raises(BatchError, match="group 1"):
            plan_step("grpo", [broken], 1e-6)
