import random
from pathlib import Path

import msgspec
import pytest
import torch

from learner.messages import Sample
from learner.network import Network
from learner.pack import Pack, SampleError, check_sample, pack_samples
from tests.learner.tiny import VOCAB, group, groups, tiny_policy


def network(folder: Path) -> Network:
    return Network(tiny_policy(folder / "policy"), torch.float32)


def logps(net: Network, packs: list[Pack]) -> dict[int, torch.Tensor]:
    """By row, in the order of the sample's trainable ids."""
    found: dict[int, list[torch.Tensor]] = {}
    for pack in packs:
        logprobs = net.logits(net.hidden(pack)).log_softmax(-1)
        for place, target, row in zip(pack.places, pack.targets, pack.rows, strict=True):
            found.setdefault(row, []).append(logprobs[place, target])
    return {row: torch.stack(values) for row, values in found.items()}


def alone(net: Network, sample: Sample) -> torch.Tensor:
    """The plain forward pass of one sample."""
    logprobs = net.module(torch.tensor([sample.ids])).logits[0].float().log_softmax(-1)
    places = [place for place, flag in enumerate(sample.trainable) if flag]
    return torch.stack([logprobs[place - 1, sample.ids[place]] for place in places])


def samples() -> list[Sample]:
    """Of several groups, with one sample that is the start of another and one that is its double."""
    every = [sample for one in groups(5, rounds=3) for sample in one.samples]
    last = every[-1]
    cut = last.trainable.index(True) + 2
    start = msgspec.structs.replace(
        last, ids=last.ids[:cut], trainable=last.trainable[:cut], logprobs=last.logprobs[: sum(last.trainable[:cut])]
    )
    return [*every, last, start]


def gradients(net: Network, total: torch.Tensor) -> list[torch.Tensor]:
    net.module.zero_grad()
    torch.autograd.backward(total)
    return [weight.grad.clone() for weight in net.module.parameters() if weight.grad is not None]


@pytest.mark.parametrize("max_ids", [1, 30, 10_000])
def test_packing_changes_neither_log_probabilities_nor_gradients(tmp_path: Path, max_ids: int) -> None:
    net = network(tmp_path)
    packed = logps(net, pack_samples(samples(), max_ids))
    single = {row: alone(net, sample) for row, sample in enumerate(samples())}
    for row, expected in single.items():
        torch.testing.assert_close(packed[row], expected, rtol=1e-4, atol=1e-4)
    weights = {row: torch.linspace(-1, 1, len(values)) for row, values in single.items()}
    of_packed = gradients(net, sum((packed[row] * weights[row]).sum() for row in weights))  # type: ignore[arg-type]
    of_single = gradients(net, sum((single[row] * weights[row]).sum() for row in weights))  # type: ignore[arg-type]
    for one, other in zip(of_packed, of_single, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


def test_what_samples_share_from_their_start_is_read_once_and_predicted_from_once() -> None:
    one = group(1, (1.0, 0.0, 0.0), random.Random(0))
    (pack,) = pack_samples([*one.samples, one.samples[0]], 1000)
    paths = {sample.ids[:end] for sample in one.samples for end in range(1, len(sample.ids))}
    assert len(pack.ids) == len(paths)
    predicted = {sample.ids[:place] for sample in one.samples for place, flag in enumerate(sample.trainable) if flag}
    assert len(pack.sources) == len(predicted)
    assert len(pack.targets) == sum(sum(sample.trainable) for sample in (*one.samples, one.samples[0]))


def test_a_pack_keeps_its_bound_unless_one_sample_is_longer() -> None:
    longest = max(len(sample.ids) for sample in samples())
    for bound in (1, 20, 40, 80):
        assert all(len(pack.ids) <= max(bound, longest) for pack in pack_samples(samples(), bound))


def test_every_trainable_id_is_a_target_once_with_its_log_probability() -> None:
    packs = pack_samples(samples(), 50)
    for row, sample in enumerate(samples()):
        mine = [
            (target, logprob)
            for pack in packs
            for target, logprob, owner in zip(pack.targets, pack.behaviour, pack.rows, strict=True)
            if owner == row
        ]
        ids = [id_ for id_, flag in zip(sample.ids, sample.trainable, strict=True) if flag]
        assert mine == list(zip(ids, sample.logprobs, strict=True))


def test_ids_after_the_last_trainable_one_are_left_out() -> None:
    sample = group(1, (1.0,), random.Random(0)).samples[0]
    longer = msgspec.structs.replace(sample, ids=(*sample.ids, 9, 9), trainable=(*sample.trainable, False, False))
    assert pack_samples([longer], 100) == pack_samples([sample], 100)


def test_observations_get_no_gradient_of_their_own(tmp_path: Path) -> None:
    """What an observation says is read, but nothing pushes towards saying it: its ids are no targets."""
    sample = group(1, (1.0,), random.Random(3), rounds=3).samples[0]
    pack = pack_samples([sample], 100)[0]
    net = network(tmp_path)
    hidden = net.hidden(pack).detach().requires_grad_()
    logits = net.logits(hidden)
    logits.retain_grad()
    torch.autograd.backward(logits.log_softmax(-1).gather(1, torch.tensor(pack.targets)[:, None]).sum())
    assert logits.grad is not None
    assert len(logits.grad) == sum(sample.trainable)


def test_a_sample_that_contradicts_itself_is_refused() -> None:
    good = group(1, (1.0,), random.Random(0)).samples[0]
    check_sample(good, VOCAB)
    for broken in (
        msgspec.structs.replace(good, ids=good.ids[1:]),
        msgspec.structs.replace(good, logprobs=good.logprobs[1:]),
        msgspec.structs.replace(good, trainable=(True, *good.trainable[1:]), logprobs=(*good.logprobs, -1.0)),
        msgspec.structs.replace(good, ids=(VOCAB, *good.ids[1:])),
    ):
        with pytest.raises(SampleError, match="trajectory 100"):
            check_sample(broken, VOCAB)
