"""What the templates need of the design system: icons, badges, numbers in words, hostile text made visible."""

import logging
from datetime import datetime
from typing import Any

from django import template
from django.db import Error
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from apps.dashboard import hostile, words
from apps.dashboard.badges import VERDICTS, Badge
from apps.dashboard.badges import badge as badge_of
from apps.dashboard.queries.frame import weaker_isolation

register = template.Library()
logger = logging.getLogger(__name__)

register.filter("percent", words.percent)
register.filter("points", words.points)
register.filter("count", words.count)
register.filter("short_count", words.short_count)
register.filter("number", words.number)
register.filter("seconds", words.seconds)
register.filter("moment", words.moment)
register.filter("clock", words.clock)
register.filter("size", words.size)
register.filter("visible", hostile.visible)


@register.filter
def ago(moment: datetime | None) -> str:
    return words.ago(moment, timezone.now())


@register.simple_tag
def icon(name: str, small: bool = False) -> SafeString:
    shape = "icon icon-s" if small else "icon"
    address = static("icons.svg")
    return format_html('<svg class="{}" aria-hidden="true"><use href="{}#{}"/></svg>', shape, address, name)


@register.simple_tag
def badge(look: Badge, bare: bool = False, word: str = "") -> SafeString:
    """Icon and word; `word` says more than the state's own."""
    shape = "badge badge-bare" if bare else "badge"
    return format_html(
        '<span class="{}" data-tone="{}">{}{}</span>', shape, look.tone, icon(look.icon), word or look.word
    )


@register.simple_tag
def ci(low: float | None, high: float | None, digits: int = 1) -> SafeString:
    """The interval in the quiet voice; nothing where it is not defined."""
    text = words.interval(low, high, digits)
    return format_html('<span class="ci">{}</span>', text) if text else SafeString("")


@register.simple_tag
def weaker_boxes() -> list[str]:
    """Why boxes on workers are isolated less than by default, each reason once."""
    try:
        return weaker_isolation()
    except Error:  # the page that tells of an error asks too
        logger.warning("Whether boxes are isolated less than by default cannot be read.", exc_info=True)
        return []


@register.simple_tag
def plural(many: int, one: str, more: str = "") -> str:
    return words.plural(many, one, more or None)


@register.filter
def item(table: dict[str, Any], key: str) -> Any:
    return table.get(key)


@register.filter
def visible_value(value: Any) -> str:
    """A value of JSON that may hold a task's own words."""
    return hostile.visible(value if isinstance(value, str) else str(value))


@register.simple_tag
def verdict(name: str, bare: bool = False) -> SafeString:
    return badge(badge_of(VERDICTS, name), bare)


@register.filter
def commands(text: str) -> SafeString:
    """What stands between backticks is code."""
    pieces = enumerate(text.split("`"))
    return format_html_join("", "{}", ((format_html("<code>{}</code>", it) if odd % 2 else it,) for odd, it in pieces))


@register.filter
def between(start: datetime, end: datetime) -> str:
    return words.seconds((end - start).total_seconds())
