from pathlib import Path

import pytest

from learner.settings import Settings, SettingsError, read_settings

BARE = {"ASSAY_BROKER_URL": "redis://b", "ASSAY_STORE_URL": "/s"}


def test_what_is_not_given_has_its_default() -> None:
    assert read_settings(BARE) == Settings("redis://b", "/s", Path("var"), 2)


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"ASSAY_STORE_URL": "/s"}, "ASSAY_BROKER_URL"),
        ({"ASSAY_BROKER_URL": "redis://b"}, "ASSAY_STORE_URL"),
        (BARE | {"ASSAY_TORCH_THREADS": "none"}, "ASSAY_TORCH_THREADS"),
    ],
)
def test_a_missing_or_wrong_variable_is_named(environment: dict[str, str], name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        read_settings(environment)
