"""The office; Celery's app is loaded with it."""

from office.celery import app

__all__ = ["app"]
