"""The test site with django-unfold in front of the stock admin, on SQLite."""

from __future__ import annotations

from tests.settings.sqlite import *  # noqa: F403 - settings modules are made to be completed
from tests.settings.sqlite import INSTALLED_APPS as STOCK

INSTALLED_APPS = ["unfold", *STOCK]
