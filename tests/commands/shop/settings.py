"""A shop whose workers are started by the tests; the environment says where its database is."""

from __future__ import annotations

import json
import os

from tests.settings.base import *  # noqa: F403 - settings modules are made to be completed
from tests.settings.base import INSTALLED_APPS
from tests.settings.databases import from_url

INSTALLED_APPS = [*INSTALLED_APPS, "tests.commands.shop", *json.loads(os.environ.get("SHOP_APPS", "[]"))]
DATABASES = {"default": from_url(os.environ["DATABASE_URL"])}
DJANGO_MQ = json.loads(os.environ.get("SHOP_MQ", "{}"))
