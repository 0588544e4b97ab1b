import pytest
import torch

from learner.corrections import importance, k3, truncated
from tests.learner.golden import GOLDEN


def column(values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(("name", "cap"), [("tis_C2", 2.0), ("tis_C1.5", 1.5)])
def test_truncated_weights_match_the_golden_table(name: str, cap: float) -> None:
    table = GOLDEN["tis"]
    weights = truncated(importance(column(table["logp_train_old"]), column(table["logp_rollout"])), cap)
    assert weights.tolist() == pytest.approx(table[name], abs=1e-5)


@pytest.mark.parametrize("case", GOLDEN["kl"])
def test_k3_matches_the_golden_table(case: str) -> None:
    logp, reference = (float(part.split("=")[1]) for part in case.split(","))
    assert k3(column([logp]), column([reference])).item() == pytest.approx(GOLDEN["kl"][case]["k3"], abs=1e-5)


def test_no_gradient_flows_through_the_correction() -> None:
    assert not importance(torch.zeros(2, requires_grad=True), torch.zeros(2)).requires_grad
