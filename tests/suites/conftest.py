"""Databases of their own for the suites, and their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conftest import skip_or_fail
from tests.journeys.conftest import templates
from tests.suites.sources import NotFetchedError, fetch_tests

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["templates"]


@pytest.fixture(scope="session")
def kombu_tests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds Kombu's ``t``; a laptop without network skips what needs it."""
    try:
        return fetch_tests("kombu", tmp_path_factory.mktemp("sources"))
    except NotFetchedError as missing:
        skip_or_fail(missing)
