"""Tasks whose environment is an image, from their Dockerfile to their grade."""

import pytest

from sandbox_worker.messages import Outcome, ResourceProfile
from sandbox_worker.sandbox.base import Backend
from sandbox_worker.sandbox.docker import DockerBackend
from sandbox_worker.sandbox.images.docker_builder import DockerBuilder
from sandbox_worker.sandbox.images.layered import LayeredBuilder
from sandbox_worker.sandbox.images.store import ImageStore
from tests.sandbox_worker.docker_host import BASE
from tests.sandbox_worker.factories import PASS_IF_DONE, put_task, rollout_request, task_files
from tests.sandbox_worker.playing import play
from wire.store import FolderStore

pytestmark = pytest.mark.sandbox

DOCKERFILE = (
    "FROM assay/base\nWORKDIR /app\nCOPY files/ /app/\nENV KIND=long\n"
    "RUN printf '#!/bin/sh\\necho \"$KIND $(cat /opt/words)\"\\n' >/usr/local/bin/say && chmod 755 /usr/local/bin/say\n"
    "RUN sort -r words.txt >/opt/words && rm words.txt\n"
)
CHECK = "[ ! -e words.txt ] && [ \"$(say)\" = 'long two\none' ] || exit 1\n"


def played(backend: Backend, store: FolderStore, images: ImageStore, **files: str | None) -> Outcome:
    request = rollout_request(put_task(store, task_files(**files)), profile=ResourceProfile(memory_bytes=128 * 2**20))
    return play(backend, store, request, images=LayeredBuilder(images))


def test_a_task_with_a_build_is_solved_by_its_reference(
    backend: Backend, store: FolderStore, host_images: ImageStore
) -> None:
    outcome = played(
        backend,
        store,
        host_images,
        environment__Dockerfile=DOCKERFILE,
        solution__solve_DOTsh=f"{CHECK}touch done\n",
        tests__test_DOTsh=CHECK + PASS_IF_DONE,
    )
    assert outcome.rounds[0].exit_code == 0, outcome.rounds[0].output
    assert (outcome.ending.kind, outcome.grade.verdict) == ("submitted", "solved")


def test_what_the_agent_deletes_of_an_image_stays_deleted_for_the_grader(
    backend: Backend, store: FolderStore, host_images: ImageStore
) -> None:
    outcome = played(
        backend,
        store,
        host_images,
        environment__Dockerfile="FROM assay/base\nWORKDIR /app\nRUN touch made\n",
        solution__solve_DOTsh="rm made && touch done\n",
        tests__test_DOTsh="[ ! -e made ] || exit 1\n" + PASS_IF_DONE,
    )
    assert outcome.grade.verdict == "solved"


@pytest.mark.parametrize(
    ("dockerfile", "evidence"),
    [
        (
            "FROM assay/base\nWORKDIR /app\nRUN echo why >&2; exit 3\n",
            "BuildFailedError: environment/Dockerfile, line 3",
        ),
        ("FROM debian:12\nWORKDIR /app\nRUN true\n", "MissingImageError: there is no image 'debian:12'"),
        (
            "FROM assay/base\nWORKDIR /usr/src/app\n",
            "WorkspaceError: /usr/src/app cannot be the working folder",
        ),
        ("FROM assay/base\nWORKDIR /app\nRUN rm /usr/bin/bash\n", "MissingProgramError: the image has no bash"),
        ("FROM assay/base\nWORKDIR /app\nRUN --network=host true\n", "needs Docker: RUN with options is not supported"),
    ],
)
def test_an_environment_that_cannot_be_made_breaks_at_the_task_before_the_agent(
    dockerfile: str, evidence: str, backend: Backend, store: FolderStore, host_images: ImageStore
) -> None:
    outcome = played(backend, store, host_images, environment__Dockerfile=dockerfile)
    assert (outcome.ending.kind, outcome.ending.detail, outcome.grade.verdict) == ("infra", "task", "none")
    assert evidence in outcome.ending.evidence
    assert (outcome.rounds, outcome.use.boxes_started) == ((), 0)


def test_a_store_of_images_that_does_not_work_is_our_failure(backend: Backend, store: FolderStore) -> None:
    images = ImageStore(store.root)
    (store.root / "layers").touch()
    outcome = played(backend, store, images, environment__Dockerfile="FROM assay/base\nWORKDIR /app\nRUN true\n")
    assert (outcome.ending.kind, outcome.ending.detail) == ("infra", "worker")
    assert "ImageStoreError" in outcome.ending.evidence


@pytest.mark.docker
def test_a_task_with_a_build_is_solved_by_its_reference_on_docker(
    docker_boxes: DockerBackend, store: FolderStore, host_images: ImageStore
) -> None:
    request = rollout_request(
        put_task(
            store,
            task_files(
                environment__Dockerfile=DOCKERFILE,
                solution__solve_DOTsh=f"{CHECK}touch done\n",
                tests__test_DOTsh=CHECK + PASS_IF_DONE,
            ),
        ),
        profile=ResourceProfile(memory_bytes=128 * 2**20),
    )
    outcome = play(docker_boxes, store, request, images=DockerBuilder(docker_boxes, host_images))
    assert outcome.rounds[0].exit_code == 0, outcome.rounds[0].output
    assert (outcome.ending.kind, outcome.grade.verdict) == ("submitted", "solved")
    assert outcome.isolation.startswith("Docker")


@pytest.mark.docker
@pytest.mark.parametrize(
    ("changes", "evidence"),
    [
        ({"environment__Dockerfile": "FROM assay/base\nWORKDIR /app\nRUN exit 3\n"}, "BuildFailedError"),
        ({"environment__Dockerfile": "FROM debian:12\nWORKDIR /app\n"}, "MissingImageError: there is no image"),
        (
            {
                "environment__Dockerfile": None,
                "task_DOTtoml": '[environment]\ndocker_image = "lab/none:1"\nworkdir = "/app"\n',
            },
            "MissingImageError: there is no image 'lab/none:1': docker load it",
        ),
        ({"environment__Dockerfile": "FROM assay/base\nWORKDIR /app\nRUN rm /bin/bash\n"}, "MissingProgramError"),
    ],
)
def test_an_environment_that_cannot_be_made_on_docker_breaks_at_the_task(
    changes: dict[str, str | None],
    evidence: str,
    docker_boxes: DockerBackend,
    store: FolderStore,
    host_images: ImageStore,
) -> None:
    request = rollout_request(put_task(store, task_files(**changes)))
    outcome = play(docker_boxes, store, request, images=DockerBuilder(docker_boxes, host_images))
    assert (outcome.ending.kind, outcome.ending.detail, outcome.grade.verdict) == ("infra", "task", "none")
    assert evidence in outcome.ending.evidence
    assert (outcome.rounds, outcome.use.boxes_started) == ((), 0)


@pytest.mark.docker
def test_a_task_that_names_its_image_is_solved_on_docker(
    docker_boxes: DockerBackend, store: FolderStore, host_images: ImageStore
) -> None:
    docker_boxes.api.tag(BASE, "lab/tool", "1")
    files = task_files(
        environment__Dockerfile=None,
        task_DOTtoml='[environment]\ndocker_image = "lab/tool:1"\nworkdir = "/usr/src/app"\n',
        solution__solve_DOTsh="[ $(pwd) = /usr/src/app ] && cat files/words.txt >done\n",
    )
    request = rollout_request(put_task(store, files))
    outcome = play(docker_boxes, store, request, images=DockerBuilder(docker_boxes, host_images))
    assert (outcome.ending.kind, outcome.grade.verdict) == ("submitted", "solved")


def test_an_image_that_a_task_names_is_asked_for_on_bubblewrap_too(
    backend: Backend, store: FolderStore, host_images: ImageStore
) -> None:
    named = '[environment]\ndocker_image = "lab/none:1"\nworkdir = "/app"\n'
    outcome = played(backend, store, host_images, environment__Dockerfile=None, task_DOTtoml=named)
    assert (outcome.ending.kind, outcome.ending.detail) == ("infra", "task")
    assert "there is no image 'lab/none:1': bring it in with manage.py import_image" in outcome.ending.evidence
