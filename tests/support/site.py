"""A site on its own database, in the test's process, for tests that stop, freeze or fill a database."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django.core.management import call_command
from django.db import connections

from django_mq.delivery.queues import declare
from django_mq.stores.registry import shared_store
from tests.settings.databases import from_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import DjangoDbBlocker, Settings


@contextmanager
def an_alias_of(entry: dict[str, Any], settings: Settings, blocker: DjangoDbBlocker) -> Iterator[str]:
    """An alias for an entry of ``DATABASES``, on which the queues are said to be; it may lead nowhere."""
    alias = f"alias_{uuid4().hex[:8]}"
    connections.settings[alias] = connections.configure_settings({"default": {}, alias: entry})[alias]
    settings.DJANGO_MQ = {"DATABASE": alias}
    with blocker.unblock():
        try:
            yield alias
        finally:
            connections[alias].close()
            del connections[alias], connections.settings[alias]


@contextmanager
def a_site_on(url: str, settings: Settings, blocker: DjangoDbBlocker) -> Iterator[str]:
    """A database of the test's own with the queue ``orders``, under an alias of its own."""
    with an_alias_of(from_url(url), settings, blocker) as alias:
        settings.DJANGO_MQ = {
            **settings.DJANGO_MQ,
            "POLL_SECONDS": 0.05,
            "MAINTENANCE_SECONDS": 0.2,
            "SESSION_SECONDS": 5,
        }
        call_command("migrate", "django_mq", database=alias, verbosity=0)
        declare(shared_store(alias), "orders")
        yield alias
