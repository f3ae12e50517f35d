"""Settings of the processes that Spark starts: every database of the tests, under the same aliases."""

from __future__ import annotations

import json
import os

from tests.settings.base import *  # noqa: F403 - settings modules are made to be completed
from tests.settings.databases import from_url

DATABASES = {alias: from_url(url) for alias, url in json.loads(os.environ["PIPELINE_DATABASES"]).items()}
DATABASE_ROUTERS = ["django_mq.routers.MQRouter"]
