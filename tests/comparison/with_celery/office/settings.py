"""The settings of the office."""

import os

from dj_database_url import parse

SECRET_KEY = "the tests keep no secrets"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "office"]
DATABASES = {"default": parse(os.environ["DATABASE_URL"])}
PAUSE_SECONDS = 1

CELERY_BROKER_URL = os.environ["REDIS_URL"]
CELERY_TASK_IGNORE_RESULT = True
# No task is lost if its worker is killed.
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
# Redis delivers again what is not acknowledged in time, and a reminder waits in a worker.
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 40 * 24 * 3600}
