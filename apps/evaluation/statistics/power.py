"""How small a difference a measurement could have shown (two-sided 5 %)."""

from .interval import normal_quantile

POWER = 0.8


def detectable_from_error(error: float, power: float = POWER) -> float:
    """From the standard error of a difference that was measured."""
    return (normal_quantile(0.975) + normal_quantile(power)) * error
