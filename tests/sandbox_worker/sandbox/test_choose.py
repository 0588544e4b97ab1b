"""Which boxes are asked for, and which this host gets."""

import pytest

from sandbox_worker.sandbox.choose import Wanted, WantedError, open_backend, wanted
from sandbox_worker.sandbox.findings import UnprovedError

NOWHERE = "unix:///nowhere/docker.sock"


def test_nothing_set_is_the_default() -> None:
    assert wanted({}) == Wanted()
    assert wanted({}).docker_url == "unix:///var/run/docker.sock"


def test_the_environment_says_what_is_wanted() -> None:
    asked = {"ASSAY_SANDBOX_BACKEND": "docker", "ASSAY_ALLOW_WEAKER_BOXES": "1", "DOCKER_HOST": "tcp://10.0.0.1:2375"}
    asked |= {"ASSAY_DOCKER_IMAGE": "mine", "ASSAY_DOCKER_RUNTIME": "runsc"}
    assert wanted(asked) == Wanted("docker", True, "tcp://10.0.0.1:2375", "mine", "runsc")


def test_an_unknown_back_end_is_named_with_the_known_ones() -> None:
    with pytest.raises(WantedError, match="one of auto, bubblewrap, docker, not 'podman'"):
        wanted({"ASSAY_SANDBOX_BACKEND": "podman"})


@pytest.mark.sandbox
def test_bubblewrap_comes_first() -> None:
    backend = open_backend(Wanted(docker_url=NOWHERE))
    backend.close()
    assert backend.isolation.startswith("bubblewrap")


def test_what_is_wanted_and_not_there_is_no_reason_for_another_kind() -> None:
    with pytest.raises(UnprovedError, match="no Docker Engine at unix:///nowhere"):
        open_backend(Wanted(kind="docker", docker_url=NOWHERE))
