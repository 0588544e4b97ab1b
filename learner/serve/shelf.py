"""The policy versions in memory: loaded from the object store, found by name, the least recently used put away."""

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

import torch

from learner.manifest import DamagedFileError
from learner.memory import give_back
from learner.serve.cohort import Policy
from learner.serve.engine import Engine
from learner.serve.protocol import ApiError
from learner.serve.text import Text
from learner.serve.weights import WeightsError, load_weights
from wire.store import MissingObjectError, Store, StoreError


@dataclass(frozen=True)
class Served:
    policy: Policy
    text: Text
    loaded_at: float


class Shelf:
    def __init__(self, store: Store, cache: Path, engine: Engine, room: int, dtype: torch.dtype) -> None:
        self._store = store
        self._cache = cache
        self._engine = engine
        self._room = room
        self._dtype = dtype
        self._served: OrderedDict[str, Served] = OrderedDict()
        self._loading = asyncio.Lock()

    def all(self) -> list[Served]:
        return list(self._served.values())

    def find(self, name: str) -> Served:
        """Raises ApiError 404."""
        served = self._served.get(name)
        if served is None:
            raise ApiError(404, f"The model `{name}` does not exist.", param="model", code="model_not_found")
        self._served.move_to_end(name)
        return served

    async def load(self, name: str, prefix: str, digest: str) -> tuple[Served, bool]:
        """The version under that name, and whether it had to be loaded. One load at a time, beside the sampling."""
        async with self._loading:
            if known := self._served.get(name):
                _same_or_refuse(known.policy, prefix, digest)
                self._served.move_to_end(name)
                return known, False
            self._make_room()
            kept = {prefix, *(other.policy.prefix for other in self.all())}
            served = await asyncio.to_thread(self._read, name, prefix, digest, kept)
            self._served[name] = served
            return served, True

    def drop(self, name: str) -> bool:
        """Requests in flight still finish. False if there was none."""
        return self._served.pop(name, None) is not None

    def _make_room(self) -> None:
        """Raises ApiError 503 if all are busy."""
        while len(self._served) >= self._room:
            idle = [name for name, served in self._served.items() if not self._engine.busy(served.policy)]
            if not idle:
                message = f"All {self._room} versions in memory are being sampled from; try again."
                raise ApiError(503, message, param="name", code="no_room")
            self.drop(idle[0])

    def _read(self, name: str, prefix: str, digest: str, kept: set[str]) -> Served:
        """kept: prefixes whose local copies, if the store makes any, stay."""
        try:
            self._store.drop_copies(self._cache, kept)
            folder = self._store.local_folder(prefix, self._cache)
            weights, found = load_weights(folder, self._dtype, digest)
            text = Text(folder)
        except (MissingObjectError, FileNotFoundError) as error:
            raise ApiError(404, f"{prefix}: {error}", param="prefix", code="weights_not_found") from error
        except (StoreError, OSError) as error:  # the weights may well be there: worth asking again
            raise ApiError(503, f"{prefix}: {error}", param="prefix", code="store_unavailable") from error
        except DamagedFileError as error:
            self._store.drop_copies(self._cache, kept - {prefix})  # a mended object is then read anew
            raise ApiError(422, str(error), param="digest", code="weights_damaged") from error
        except WeightsError as error:
            raise ApiError(422, str(error), param="prefix", code="weights_unusable") from error
        give_back()  # what loading took, and what is left of a version that was put away
        policy = Policy(name, prefix, found, weights)
        return Served(policy, text, time.time())


def _same_or_refuse(policy: Policy, prefix: str, digest: str) -> None:
    if policy.prefix != prefix or (digest and policy.digest and policy.digest != digest):
        message = f"`{policy.name}` is loaded from {policy.prefix}; a served name never changes its weights."
        raise ApiError(409, message, param="name", code="name_taken")
