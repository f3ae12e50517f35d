"""The project: settings, URLs, and the Celery app for ``-A config``."""

from config.celery import app

__all__ = ["app"]
