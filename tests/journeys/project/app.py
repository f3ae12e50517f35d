"""The site's Celery app."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.journeys.project.settings")

app = Celery("journey")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.imports = ["tests.journeys.project.tasks"]
