"""One database, PostgreSQL: that of DATABASE_URL, which ``python -m tests.services`` sets."""

from __future__ import annotations

import os

from tests.settings.base import *  # noqa: F403 - settings modules are made to be completed
from tests.settings.databases import from_url

DATABASES = {"default": from_url(os.environ["DATABASE_URL"])}
DJANGO_MQ = {"REDIS_URL": os.environ.get("REDIS_URL")}
