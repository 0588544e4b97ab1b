"""Numbers and moments in words, the same in templates and in live messages. Not defined is 'n/a', never 0."""

from datetime import UTC, datetime

NOT_DEFINED = "n/a"
MINUS = "\u2212"
NO_BREAK = "\u00a0"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def percent(share: float | None, digits: int = 1) -> str:
    """0.615 as '61.5', without the sign."""
    return NOT_DEFINED if share is None else f"{100 * share:.{digits}f}"


def interval(low: float | None, high: float | None, digits: int = 1) -> str:
    """Bounds of a share in per cent: '[56.9, 65.9]'."""
    if low is None or high is None:
        return ""
    return f"[{percent(low, digits)},{NO_BREAK}{percent(high, digits)}]"


def points(change: float | None, digits: int = 1) -> str:
    """A difference of shares in points, signed."""
    return NOT_DEFINED if change is None else signed(100 * change, digits)


def signed(value: float, digits: int = 1) -> str:
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return text
    return f"{'+' if value > 0 else MINUS}{text}"


def count(value: float | None) -> str:
    return NOT_DEFINED if value is None else f"{value:,.0f}"


def short_count(value: float | None) -> str:
    """38900 as '38.9k'."""
    if value is None:
        return NOT_DEFINED
    for least, scale, unit in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= least:
            return f"{value / scale:.1f}{unit}"
    return f"{value:,.0f}"


def number(value: float | None, digits: int = 3) -> str:
    """With so many significant digits."""
    if value is None:
        return NOT_DEFINED
    if value == 0:
        return "0"
    text = f"{value:.{digits}g}"
    if "e" in text and 1e-4 <= abs(value) < 1e6:
        text = f"{float(text):f}".rstrip("0").rstrip(".")
    return text.replace("-", MINUS) if value < 0 else text


def seconds(value: float | None) -> str:
    """A duration in the unit that suits it: '0.13 ms', '32 ms', '6.1 s', '2 min 12 s', '6 h 12 min', '3 d 4 h'."""
    if value is None:
        return NOT_DEFINED
    if value < 0.01:
        return f"{number(1000 * value, 2)} ms"
    if value < 1:
        return f"{1000 * value:.0f} ms"
    if value < 60:
        return f"{value:.1f} s"
    whole = round(value)
    for size, unit, below, below_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {unit} {rest} {below_unit}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


def ago(moment: datetime | None, now: datetime) -> str:
    """How long ago, coarsely; the exact time stands in the title."""
    if moment is None:
        return NOT_DEFINED
    passed = max(0.0, (now - moment).total_seconds())
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if passed >= size:
            return f"{int(passed // size)} {unit} ago"
    return f"{int(passed)} s ago"


def moment(value: datetime | None) -> str:
    """With its zone: '30 Nov 2026 14:22:12 UTC'."""
    return NOT_DEFINED if value is None else f"{value.astimezone(UTC):%d %b %Y %H:%M:%S} UTC"


def clock(value: datetime | None) -> str:
    """Time of day in UTC; the page says the zone once."""
    return NOT_DEFINED if value is None else f"{value.astimezone(UTC):%H:%M:%S}"


def size(value: float | None) -> str:
    if value is None:
        return NOT_DEFINED
    left = float(value)
    for unit in _UNITS:
        if left < 1024 or unit == _UNITS[-1]:
            return f"{left:.0f} {unit}" if unit == "B" or left >= 100 or left == int(left) else f"{left:.1f} {unit}"
        left /= 1024
    return NOT_DEFINED


def plural(many: int, one: str, more: str | None = None) -> str:
    """'1 try', '3 tries'."""
    return f"{many:,} {one if many == 1 else (more or one + 's')}"
