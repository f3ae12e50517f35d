"""Tables of one's own on PostgreSQL: a schema that is made, measured in, and dropped as a whole.

The schema's tables are copies of the site's, with their indexes, constraints and storage
settings. They are reached under an alias of their own, whose connections find them first.
"""

from __future__ import annotations

from contextlib import contextmanager
from copy import deepcopy
from itertools import count
from typing import TYPE_CHECKING

from django.apps import apps
from django.db import connections

from tests.benchmarks.store.raw import copy_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_numbers = count(1)


@contextmanager
def own_schema(alias: str, name: str) -> Iterator[str]:
    """Make the schema anew, yield an alias that leads there, and drop it."""
    # A new alias each time: what this process remembers of queues belongs to tables that are gone.
    own = f"{name}_{next(_numbers)}"
    drop = f"DROP SCHEMA IF EXISTS {name} CASCADE"
    with connections[alias].cursor() as cursor:
        cursor.execute(drop)
        cursor.execute(f"CREATE SCHEMA {name}")
        for model in apps.get_app_config("django_mq").get_models():
            copy_table(cursor, model._meta.db_table, f"{name}.{model._meta.db_table}")
    connections.settings[own] = settings_within(connections[alias].settings_dict, name)
    try:
        yield own
    finally:
        connections[own].close()
        del connections[own]
        del connections.settings[own]
        with connections[alias].cursor() as cursor:
            cursor.execute(drop)


def settings_within(settings: dict[str, Any], schema: str) -> dict[str, Any]:
    """Return a connection's settings with the schema in front of its search path."""
    changed = deepcopy(settings)
    options = changed.setdefault("OPTIONS", {})
    options["options"] = f"{options.get('options', '')} -c search_path={schema}".strip()
    return changed
