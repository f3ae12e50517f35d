"""Settings of the journeys' worker processes; the environment says what differs between them."""

from __future__ import annotations

import json
import os

from tests.settings.base import *  # noqa: F403 - settings modules are made to be completed
from tests.settings.base import INSTALLED_APPS as USUAL_APPS
from tests.settings.databases import from_url

INSTALLED_APPS = [*USUAL_APPS, *os.environ.get("JOURNEY_APPS", "").split()]
DATABASES = {"default": from_url(os.environ["DATABASE_URL"])}
DJANGO_MQ = json.loads(os.environ.get("JOURNEY_MQ", "{}"))

if "JOURNEY_TASKS" in os.environ:
    TASKS = {"default": json.loads(os.environ["JOURNEY_TASKS"])}

CELERY_BROKER_URL = os.environ.get("JOURNEY_BROKER", "django-mq://")
CELERY_TASK_DEFAULT_QUEUE = os.environ.get("JOURNEY_QUEUE", "celery")
if "JOURNEY_VISIBILITY" in os.environ:
    CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": float(os.environ["JOURNEY_VISIBILITY"])}
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = float(os.environ.get("JOURNEY_SOFT_SHUTDOWN", "0"))
# Its rate limit bounds what a worker claims of its queue: the other tasks have queues without one.
CELERY_TASK_ROUTES = {"rare": {"queue": "rare"}}
CELERY_BEAT_SCHEDULE = json.loads(os.environ.get("JOURNEY_BEAT", "{}"))
if "JOURNEY_SERIALIZER" in os.environ:
    CELERY_TASK_SERIALIZER = CELERY_RESULT_SERIALIZER = os.environ["JOURNEY_SERIALIZER"]
    CELERY_ACCEPT_CONTENT = ["json", CELERY_TASK_SERIALIZER]
CELERY_RESULT_BACKEND = os.environ.get("JOURNEY_RESULTS")
CELERY_TASK_IGNORE_RESULT = CELERY_RESULT_BACKEND is None
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
