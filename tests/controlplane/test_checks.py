"""What the system checks warn of."""

import pytest
from pytest_django import Settings

from controlplane.checks import check_exposure


def warnings() -> list[str]:
    return [str(message.id) for message in check_exposure(None)]


def test_the_defaults_raise_no_warning() -> None:
    assert warnings() == []


def test_debug_is_warned_of(settings: Settings) -> None:
    settings.DEBUG = True
    assert warnings() == ["assay.W001"]


def test_any_host_name_is_warned_of(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    assert warnings() == ["assay.W002"]


@pytest.mark.parametrize(("host", "https", "expected"), [("0.0.0.0", False, ["assay.W003"]), ("0.0.0.0", True, [])])
def test_serving_others_without_tls_is_warned_of(
    settings: Settings, host: str, https: bool, expected: list[str]
) -> None:
    settings.ASSAY_WEB_BIND = (host, 8000)
    settings.SESSION_COOKIE_SECURE = https
    assert warnings() == expected
