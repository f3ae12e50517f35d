"""The ``django-mq://`` scheme. Kombu has no entry point for transports, so its table of names is told."""

from __future__ import annotations

import sys
from typing import Any

from django.conf import settings

SCHEME = "django-mq"
TRANSPORT = "django_mq.integrations.celery.transport:Transport"


def register() -> None:
    """Make Kombu know the scheme. Imports ``kombu.transport``, which imports no transport."""
    from kombu.transport import TRANSPORT_ALIASES  # noqa: PLC0415 - only for those who use Celery

    TRANSPORT_ALIASES[SCHEME] = TRANSPORT
    _connect_worker_step()


def _connect_worker_step() -> None:
    from celery.signals import worker_init  # noqa: PLC0415 - as above

    worker_init.connect(_install_worker_step, dispatch_uid="django_mq.step", weak=False)


def _install_worker_step(sender: Any, **options: Any) -> None:
    # Only now is a worker about to be built: nobody else needs its machinery.
    from django_mq.integrations.celery.step import install  # noqa: PLC0415 - as above

    install(sender, **options)


def register_if_used() -> None:
    """Register when Kombu is already imported, or a setting names the scheme.

    A project that uses neither Celery nor the scheme never pays for the import; one that
    names the broker elsewhere imports ``django_mq.integrations.celery.scheme`` itself.
    """
    if "kombu" in sys.modules or any(_names_scheme(value) for value in _broker_settings()):
        register()


def _broker_settings() -> list[Any]:
    return [getattr(settings, name) for name in dir(settings) if name.upper().endswith("BROKER_URL")]


def _names_scheme(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(f"{SCHEME}:")
