"""What the app sets up as any project does: in ``ready()``, so that every worker process has it."""

from __future__ import annotations

import os
from importlib import import_module

from django.apps import AppConfig


class WatchedConfig(AppConfig):
    """Starts what ``WATCHED_BY`` names."""

    name = "tests.integrations.celery.live.watched"

    def ready(self) -> None:
        """Start it."""
        import_module("tests.integrations.celery.live.watched.tasks")
        by = os.environ.get("WATCHED_BY", "")
        if "sentry" in by:
            from tests.integrations.celery.live.watched import sentry

            sentry.start()
        if "opentelemetry" in by:
            from tests.integrations.celery.live.watched import traces

            traces.start()
