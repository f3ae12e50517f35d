"""The settings of the office."""

import os

from dj_database_url import parse

SECRET_KEY = "the tests keep no secrets"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django_mq", "office"]
DATABASES = {"default": parse(os.environ["DATABASE_URL"])}
PAUSE_SECONDS = 1

DJANGO_MQ = {"QUEUES": {"letters": {}, "reminders": {}, "exports": {}, "bookings": {"grouping": "shared"}}}
