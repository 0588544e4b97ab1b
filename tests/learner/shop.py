"""A store with a policy in it, a learner, and the requests that a control plane would send."""

import time
from pathlib import Path

import msgspec

from learner.messages import BatchData, SampleGroup, StepOutcome, StepReady, StepRequest, StepSettings
from learner.taking import Folders, StepTaker
from tests.learner.tiny import groups, tiny_policy
from wire.store import FolderStore, Store


class Shop:
    """A store with a policy in it, a learner, and the replies that it sent."""

    def __init__(self, folder: Path, store: Store | None = None) -> None:
        self.folder = folder
        self.store = store or FolderStore(folder / "store")
        for path in tiny_policy(folder / "tiny").iterdir():
            self.store.put(f"policies/tiny/{path.name}", path.read_bytes())
        self.replies: list[StepReady] = []
        self.restart()

    def restart(self) -> None:
        """Another life: nothing is in memory."""
        folders = Folders(self.folder / "cache", self.folder / "unfinished")
        self.taker = StepTaker("me", self.store, folders, lambda _, ready: self.replies.append(ready))

    def request(
        self, version: int, *, fence: int = 1, batch: tuple[SampleGroup, ...] | None = None, **changes: object
    ) -> StepRequest:
        self.store.put(f"batches/{version}", msgspec.json.encode(BatchData(groups=batch or groups(version))))
        request = StepRequest(
            run_id=7,
            step_id=100 + version,
            number=version,
            kind="grpo",
            fence=fence,
            deadline=time.time() + 600,
            batch_key=f"batches/{version}",
            parent_version=version - 1,
            version=version,
            parent_prefix=f"runs/7/{version - 1}" if version > 1 else "policies/tiny",
            fresh_optimizer=version == 1,
            write_prefix=f"runs/7/{version}",
            resumable=False,
            settings=StepSettings(learning_rate=1e-3),
            outcome_key=f"outcomes/{version}-{fence}.json",
            reply_job="training.step_ready",
            reply_queue="control",
        )
        return msgspec.structs.replace(request, **changes)

    def take(self, version: int, **changes: object) -> StepOutcome:
        request = self.request(version, **changes)  # type: ignore[arg-type]
        self.taker.take(request)
        return self.outcome(request)

    def outcome(self, request: StepRequest) -> StepOutcome:
        return msgspec.json.decode(self.store.get(request.outcome_key), type=StepOutcome)

    def weights(self, version: int) -> bytes:
        return self.store.get(f"runs/7/{version}/model.safetensors")
