"""Read by the pytest that runs Celery's suite: sets Django up, as a project's own start does."""

from __future__ import annotations

import django

from django_mq.integrations.celery.alias import register

django.setup()
register()
