"""Keys and migrations point the way that imports do: to earlier apps."""

from collections.abc import Iterator

import pytest
from django.apps import apps
from django.conf import settings
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState
from django.db.models import Model

ORDER = [name.removeprefix("apps.") for name in settings.ASSAY_APPS]


def models() -> Iterator[type[Model]]:
    for label in ORDER:
        yield from apps.get_app_config(label).get_models()


def is_later(target: str, source: str) -> bool:
    """Django's own apps stand before all of ours."""
    return target in ORDER and ORDER.index(target) > ORDER.index(source)


def test_no_key_points_to_a_later_app() -> None:
    found = []
    for model in models():
        for field in (*model._meta.local_fields, *model._meta.local_many_to_many):  # noqa: SLF001 (documented API)
            target = field.related_model
            if isinstance(target, type) and is_later(target._meta.app_label, model._meta.app_label):  # noqa: SLF001
                found.append(f"{model.__name__}.{field.name} -> {target.__name__}")
    assert found == []


def test_no_migration_depends_on_a_later_app() -> None:
    graph = MigrationLoader(None).graph
    found = [
        f"{key} -> {parent.key}"
        for key, node in graph.node_map.items()
        for parent in node.parents
        if key[0] in ORDER and is_later(parent.key[0], key[0])
    ]
    assert found == []


def test_no_migration_is_missing() -> None:
    """What makemigrations --check asks, without a database."""
    loader = MigrationLoader(None)
    found = MigrationAutodetector(loader.project_state(), ProjectState.from_apps(apps)).changes(graph=loader.graph)
    assert {label: [migration.operations for migration in found[label]] for label in found} == {}


@pytest.mark.parametrize("name", settings.ASSAY_APPS)
def test_every_app_has_a_label_that_is_its_name(name: str) -> None:
    assert apps.get_app_config(name.removeprefix("apps.")).name == name
