"""The shop's settings. Only ``SHOP_BROKER``, and with it the app in INSTALLED_APPS, changes with the move."""

from __future__ import annotations

import os

from kombu import Queue

from tests.settings.base import *  # noqa: F403 - settings modules are made to be completed
from tests.settings.base import INSTALLED_APPS as ALL_APPS
from tests.settings.databases import from_url

CELERY_BROKER_URL = os.environ["SHOP_BROKER"]
MOVED = CELERY_BROKER_URL.startswith("django-mq")

INSTALLED_APPS = ALL_APPS if MOVED else [app for app in ALL_APPS if app != "django_mq"]
DATABASES = {"default": from_url(os.environ["DATABASE_URL"])}
DJANGO_MQ = {"REDIS_URL": os.environ.get("SHOP_REDIS"), "SESSION_SECONDS": 3, "MAINTENANCE_SECONDS": 0.5}

CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 43200,
    "priority_steps": list(range(10)),
    "sep": ":",
    "queue_order_strategy": "priority",
    # The one line that is new: 0 stays the most urgent.
    "priority_order": "redis",
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_POOL_LIMIT = 10
CELERY_BROKER_HEARTBEAT = 120
CELERY_TASK_QUEUES = (Queue("default"), Queue("mail", queue_arguments={"x-max-priority": 10}))
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_TASK_ROUTES = {"shop.send_mail": {"queue": "mail", "priority": 2}}
CELERY_TASK_DEFAULT_PRIORITY = 5
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_SERIALIZER = "json"
CELERY_TASK_IGNORE_RESULT = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_SEND_TASK_EVENTS = True
