"""The pool of database connections."""

import pytest
from django.contrib.auth.models import Group
from django.db import connection

from tests.apps.factories import together

pytestmark = pytest.mark.django_db(transaction=True)

END_THE_OTHERS = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


def test_a_connection_that_died_in_the_pool_is_not_handed_out() -> None:
    together(Group.objects.count)
    with connection.cursor() as cursor:
        cursor.execute(END_THE_OTHERS)
    assert together(Group.objects.count) == [0, 0]
