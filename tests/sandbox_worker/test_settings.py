"""What a worker reads from its environment, and what it refuses."""

from pathlib import Path

import pytest

from sandbox_worker.settings import WARM_BOXES, SettingsError, read_settings

BARE = {"ASSAY_BROKER_URL": "redis://b", "ASSAY_STORE_URL": "/s"}


def test_what_is_not_set_has_a_sensible_value() -> None:
    settings = read_settings(BARE)
    assert (settings.slots, settings.warm_boxes) == (32, WARM_BOXES)


def test_no_boxes_wait_where_none_are_wanted() -> None:
    assert read_settings(BARE | {"ASSAY_WARM_BOXES": "0"}).warm_boxes == 0


def test_the_workers_of_a_host_meet_where_they_are_told() -> None:
    assert read_settings(BARE | {"ASSAY_BOXES_FOLDER": "/srv/boxes"}).meeting == Path("/srv/boxes")


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("ASSAY_WARM_BOXES", "-1", "ASSAY_WARM_BOXES must be a number from 0 to 128, not '-1'"),
        ("ASSAY_WARM_BOXES", "many", "ASSAY_WARM_BOXES must be a number from 0 to 128, not 'many'"),
        ("ASSAY_WARM_BOXES", "129", "ASSAY_WARM_BOXES must be a number from 0 to 128, not '129'"),
        ("ASSAY_SANDBOX_SLOTS", "0", "ASSAY_SANDBOX_SLOTS must be a number from 1 to 240, not '0'"),
        ("ASSAY_SANDBOX_SLOTS", "\u0663", "ASSAY_SANDBOX_SLOTS must be a number from 1 to 240, not '\u0663'"),
        ("ASSAY_STORE_URL", "", "ASSAY_STORE_URL is not set"),
    ],
)
def test_a_bad_value_is_refused_by_name(name: str, value: str, wanted: str) -> None:
    with pytest.raises(SettingsError) as raised:
        read_settings(BARE | {name: value})
    assert str(raised.value) == wanted
