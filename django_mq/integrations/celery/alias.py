"""The ``django-mq://`` scheme. Kombu has no entry point for transports, so its table of names is told.

Told by whoever comes first: Kombu's entry points for serializers (``known.py``), the Celery
command line (``scheme.py``), or the Django app, which waits for Kombu if need be.
"""

from __future__ import annotations

import logging
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

logger = logging.getLogger("django_mq.celery")

SCHEME = "django-mq"
TRANSPORT = "django_mq.integrations.celery.transport:Transport"


def announce() -> None:
    """Make Kombu know the scheme, and register it in full when the first broker of ours is opened."""
    from kombu.transport import TRANSPORT_ALIASES  # noqa: PLC0415 - only for those who use Celery

    TRANSPORT_ALIASES.setdefault(SCHEME, _when_used)  # type: ignore[arg-type]  # Kombu takes functions, its stubs do not


def _when_used() -> str:
    # A worker opens its broker before it sends worker_init. Where there is no Celery, there is no worker.
    if "celery" in sys.modules:
        _connect_worker_step()
    return TRANSPORT


def register() -> None:
    """Make Kombu know the scheme. Imports ``kombu.transport``, which imports no transport."""
    from kombu.transport import TRANSPORT_ALIASES  # noqa: PLC0415 - only for those who use Celery

    TRANSPORT_ALIASES[SCHEME] = TRANSPORT
    _connect_worker_step()


def _connect_worker_step() -> None:
    from celery.signals import worker_init  # noqa: PLC0415 - as above

    worker_init.connect(_install_worker_step, dispatch_uid="django_mq.step", weak=False)


def _install_worker_step(sender: Any, **options: Any) -> None:
    """Add the worker step. Raises SystemExit, which ends the worker before it starts, if that fails."""
    try:
        # Only now is a worker about to be built: nobody else needs its machinery.
        from django_mq.integrations.celery.step import install  # noqa: PLC0415 - as above

        install(sender, **options)
    except Exception as error:
        # Celery logs any other exception of a signal's receiver and goes on, here without the step.
        why = f"The worker does not start, its handlers cannot be loaded: {type(error).__name__}: {error}"
        logger.critical(why, exc_info=True)
        raise SystemExit(why) from error


def register_if_used() -> None:
    """Register when Kombu is already imported or a setting names the scheme, else as soon as Kombu is imported.

    A project that uses neither Celery nor the scheme never pays for the import.
    """
    if "kombu" in sys.modules or any(_names_scheme(value) for value in _broker_settings()):
        register()
    elif not any(isinstance(finder, _AwaitKombu) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AwaitKombu())


class _AwaitKombu(MetaPathFinder):
    """Finds what Python itself would find: it only sees that Kombu's table is being made, and adds our line."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "kombu.transport":
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            make = spec.loader.exec_module
            spec.loader.exec_module = lambda module: self._made(make(module))  # type: ignore[method-assign]
        return spec

    def _made(self, nothing: None) -> None:  # noqa: ARG002 - what a loader returns; the table is there now
        sys.meta_path.remove(self)
        announce()


def _broker_settings() -> list[Any]:
    from django.conf import settings  # noqa: PLC0415 - Kombu comes by where there is no Django, and must not pay

    return [getattr(settings, name) for name in dir(settings) if name.upper().endswith("BROKER_URL")]


def _names_scheme(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(f"{SCHEME}:")
