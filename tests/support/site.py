"""A site on a database of a test's own, in the test's process: one to stop, freeze or fill up."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

from django.core.management import call_command
from django.db import connections

from django_mq.delivery.declaring import declare
from django_mq.stores.registry import shared_store
from tests.settings.databases import from_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import DjangoDbBlocker, Settings


@contextmanager
def a_site_on(url: str, settings: Settings, blocker: DjangoDbBlocker) -> Iterator[str]:
    """A database of the test's own with the queue ``orders``, under an alias of its own."""
    alias = f"outage_{uuid4().hex[:8]}"
    complete = connections.configure_settings({"default": {}, alias: from_url(url)})
    connections.settings[alias] = complete[alias]
    settings.DJANGO_MQ = {"DATABASE": alias, "POLL_SECONDS": 0.05, "UPKEEP_SECONDS": 0.2, "SESSION_SECONDS": 5}
    with blocker.unblock():
        call_command("migrate", "django_mq", database=alias, verbosity=0)
        declare(shared_store(alias), "orders")
        try:
            yield alias
        finally:
            connections[alias].close()
            del connections[alias], connections.settings[alias]
