"""Commands end with one line that says what to do, never with a traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.management.base import CommandError
from django.db import InterfaceError, OperationalError

from wire.store import StoreError


@contextmanager
def plainly(*expected: type[Exception]) -> Iterator[None]:
    """Expected errors, and those of a database or a store that is away, as CommandError."""
    refusals: tuple[type[Exception], ...] = (StoreError, *expected)
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise CommandError("The database does not answer; is `make up` running?") from error
    except refusals as error:
        raise CommandError(str(error)) from error
