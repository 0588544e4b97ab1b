import pytest
import torch
from torch.nn import functional

from learner.serve.linear import Linear


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("rows", [1, 7, 32, 300])
def test_it_is_the_plain_product(dtype: torch.dtype, rows: int) -> None:
    torch.manual_seed(0)
    weight, x = torch.randn(96, 48, dtype=dtype), torch.randn(rows, 48, dtype=dtype)
    kept = weight.clone()
    linear = Linear(weight)
    torch.testing.assert_close(linear(x), functional.linear(x, kept))
