"""The project: settings, addresses, and the Celery app, which ``-A config`` finds here."""

from config.celery import app

__all__ = ["app"]
