"""Wilson's score interval: a proportion of independent tries, right at 0 of n and at n of n."""

from math import sqrt

from .interval import Interval, StatisticsError, normal_quantile, undefined


def wilson(successes: int, n: int) -> Interval:
    if not 0 <= successes <= n:
        raise StatisticsError(f"{successes} successes of {n}")
    if n == 0:
        return undefined(None, 0, 0, "wilson", "no tries")
    low, high = wilson_bounds(successes / n, n)
    return Interval(successes / n, low, high, n, n, "wilson")


def wilson_bounds(share: float, n: int) -> tuple[float, float]:
    z = normal_quantile(0.975)
    scale = 1 + z**2 / n
    centre = (share + z**2 / (2 * n)) / scale
    half = z / scale * sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    # Rounding would otherwise leave 0/n a hair above 0, outside its own estimate.
    return max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))
