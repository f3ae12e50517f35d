"""One database, MariaDB: the one that DATABASE_URL names."""

from __future__ import annotations

import os

from tests.settings.base import *  # noqa: F403 - settings modules are made to be completed
from tests.settings.databases import from_url

DATABASES = {"default": from_url(os.environ["DATABASE_URL"])}
DJANGO_MQ = {"REDIS_URL": os.environ.get("REDIS_URL")}
