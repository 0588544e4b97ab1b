"""The object store of this installation, as settings name it."""

from functools import cache

from django.conf import settings

from wire.store import Store, open_store


@cache
def _opened(url: str) -> Store:
    return open_store(url)


def object_store() -> Store:
    return _opened(settings.ASSAY_STORE_URL)
