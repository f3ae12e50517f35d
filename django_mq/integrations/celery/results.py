"""What Celery finds by an entry point for ``django-mq://`` as a result backend, and what its workers end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import django
from django.apps import apps

if TYPE_CHECKING:
    from django_mq.integrations.celery.result_backend import DatabaseResults
    from django_mq.stores.base import Store


def result_backend(app: Any, url: str | None = None, **options: Any) -> DatabaseResults:
    """Return the backend of an app. Raises ConfigurationError, and BrokerURLError for a wrong URL."""
    if not apps.ready and not apps.loading:
        django.setup()  # the Celery command line does not call it
    from django_mq.integrations.celery.result_backend import DatabaseResults  # noqa: PLC0415 - models

    return DatabaseResults(app=app, url=url, **options)


def end_chords(store: Store, limit: int) -> int:
    """End chords whose process has died after their last member, in a worker of Celery; return how many."""
    if "celery" not in sys.modules or not store.features.durable:
        return 0
    from celery import current_app  # noqa: PLC0415 - not in programs without Celery

    from django_mq.integrations.celery.result_backend import DatabaseResults  # noqa: PLC0415 - as above

    backend = current_app.backend
    if not isinstance(backend, DatabaseResults) or backend.alias != store.alias:
        return 0
    return backend.finish_abandoned(limit)
