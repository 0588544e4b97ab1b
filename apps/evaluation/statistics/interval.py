"""An estimate with its 95 % interval, and the quantiles that intervals are made of.

A bound that is not defined is None and `why` says so; an interval never has zero width.
"""

from dataclasses import dataclass

from scipy import stats

NO_WIDTH = 1e-12
"""Anything narrower is rounding error, not precision."""
FEW_CLUSTERS = 8
"""With fewer the spread between clusters is itself badly known."""


class StatisticsError(Exception):
    """The values given cannot be what they are said to be."""


@dataclass(frozen=True, slots=True)
class Interval:
    estimate: float | None
    """None where the number itself is not defined."""
    low: float | None
    high: float | None
    n: int
    """Units behind the estimate: tries or tasks, as `method` says."""
    clusters: int
    """Independent units: families, or n where nothing is clustered."""
    method: str
    why: str = ""
    """Why a bound is missing, or what a reader must know of it."""

    def __post_init__(self) -> None:
        if (self.estimate is None or self.low is None or self.high is None) and not self.why:
            raise StatisticsError(f"{self.method}: a bound is missing without a reason")

    @property
    def defined(self) -> bool:
        return self.low is not None and self.high is not None


def undefined(estimate: float | None, n: int, clusters: int, method: str, why: str) -> Interval:
    """An estimate, if there is one, whose bounds are not known."""
    return Interval(estimate, None, None, n, clusters, method, why)


def normal_quantile(probability: float) -> float:
    return float(stats.norm.ppf(probability))


def t_quantile(probability: float, degrees: float) -> float:
    return float(stats.t.ppf(probability, degrees))


def t_two_sided_p(t: float, degrees: float) -> float:
    return float(2 * stats.t.sf(abs(t), degrees))


def t_interval(estimate: float, error: float, degrees: float, n: int, clusters: int, method: str) -> Interval:
    """The estimate plus and minus t times its standard error."""
    if error <= NO_WIDTH:
        return undefined(estimate, n, clusters, method, "no spread between clusters")
    half = t_quantile(0.975, degrees) * error
    why = f"only {clusters} clusters: unreliable" if clusters < FEW_CLUSTERS else ""
    return Interval(estimate, estimate - half, estimate + half, n, clusters, method, why)
