"""One database, SQLite: the file that DATABASE_URL names, else one that tools may share."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tests.settings.base import *  # noqa: F403 - settings modules are made to be completed
from tests.settings.databases import from_url, sqlite

_url = os.environ.get("DATABASE_URL", "")
_shared = Path(tempfile.gettempdir()) / "django_mq.sqlite3"

DATABASES = {"default": from_url(_url) if _url.startswith("sqlite:") else sqlite(str(_shared))}
DJANGO_MQ = {"REDIS_URL": os.environ.get("REDIS_URL")}
