"""A weight matrix laid out once for the products that it is used in.

Sampling multiplies a few rows with every weight there is. Without this, oneDNN lays the matrix out anew each time:
a quarter of a step.
"""

from typing import Any

import torch
from torch.nn import functional

_mkldnn: Any = torch.backends.mkldnn
_ROWS = 32
"""About how many rows come at once: the layout suits that best, and works for any."""


_MULTIPLE = 8
"""Of rows in a product: oneDNN writes new code for every number that it meets, and keeps it."""


class Linear:
    """x (rows, in) -> (rows, out), without a bias."""

    def __init__(self, weight: torch.Tensor) -> None:
        """weight (out, in). Laid out if it is bf16 and the build can; then the original need not be kept."""
        self._packed = weight.dtype == torch.bfloat16 and _mkldnn.is_available()
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight, _ROWS) if self._packed else weight  # noqa: SLF001

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if not self._packed:
            return functional.linear(x, self._weight)
        filled = functional.pad(x, (0, 0, 0, -len(x) % _MULTIPLE))
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(filled, self._weight, None, "none", [], "")  # noqa: SLF001
        return product[: len(x)]
