"""Settings of the library index: a small site, django_mq, and Celery on top of it.

DATABASE_URL and REDIS_URL name the servers; without them everything lives in one SQLite
file and there is no Redis. LIBRARY_VAR names the directory of that file and of the logs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from config.databases import database

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = Path(os.environ.get("LIBRARY_VAR") or BASE_DIR / "var")
VAR_DIR.mkdir(parents=True, exist_ok=True)

SECRET_KEY = "an example on your own machine keeps no secrets"  # noqa: S105 - never deployed
DEBUG = os.environ.get("DJANGO_DEBUG", "1") == "1"
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
ROOT_URLCONF = "config.urls"
STATIC_URL = "static/"
LOGIN_URL = "admin:login"

USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_mq",
    "library",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

#: The default database only: DJANGO_MQ names no other, so a message joins the transaction of its row.
DATABASES = {"default": database(os.environ.get("DATABASE_URL"), VAR_DIR / "library.sqlite3")}

DJANGO_MQ: dict[str, Any] = {
    "REDIS_URL": os.environ.get("REDIS_URL"),
    "REDIS_PREFIX": "library",
    # A killed worker's messages are back after so long. The demo kills one and has a minute;
    # a site would leave the default.
    "SESSION_SECONDS": 5.0,
    "QUEUES": {
        # One Celery task a file. Short waits between attempts, for the demo's minute.
        "index": {
            "dead_letter_queue": "index.dead",
            "backoff_seconds": 0.5,
            "backoff_multiplier": 2.0,
            "backoff_cap_seconds": 2.0,
            "backoff_jitter": 0.2,
        },
        "index.dead": {},
        # Native messages, handled by library/consumers.py.
        "facts": {},
        "closing": {},
        # The steps of the workflow of library/workflows.py.
        "report.index": {},
        "report.analyse": {},
        "report.total": {},
    },
}

#: One variable sends the tasks on: the URL of a RabbitMQ, such as amqp://USER:PASSWORD@HOST:5672/VHOST. They still
#: commit with their rows. Celery workers on that RabbitMQ run them, and store their results in this database.
THROUGH = "LIBRARY_THROUGH"
if os.environ.get(THROUGH):
    DJANGO_MQ["BRIDGES"] = {
        "rabbit": {"url_variable": THROUGH, "routing_key": "library.index", "declare": True, "pause_seconds": 1.0}
    }
    DJANGO_MQ["QUEUES"]["index"]["bridge"] = "rabbit"
    CELERY_RESULT_BACKEND = "django-mq://"
    CELERY_RESULT_EXTENDED = True

#: The workers on RabbitMQ have its URL here; all other processes publish to the database.
CELERY_BROKER_URL = os.environ.get("LIBRARY_BROKER") or "django-mq://"
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_DEFAULT_QUEUE = "index"
CELERY_TASK_IGNORE_RESULT = not os.environ.get(THROUGH)
