"""Tasks whose environment is an image, from their Dockerfile to their grade."""

import pytest

from sandbox_worker.messages import Outcome, ResourceProfile
from sandbox_worker.sandbox.base import Backend
from sandbox_worker.sandbox.images.layered import LayeredBuilder
from sandbox_worker.sandbox.images.store import ImageStore
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


def played(backend: Backend, store: FolderStore, images: ImageStore, **files: str) -> Outcome:
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
