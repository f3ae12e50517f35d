"""The plugin of pytest. Every run of pytest loads it, so it imports the rest with the first test that asks.

It is not in ``django_mq.testing``, because that package would be imported with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.testing.tester import QueueTester


@pytest.fixture
def mq() -> Iterator[QueueTester]:
    """The queues of a test that may use the database, as by the mark ``django_db``."""
    from django_mq.testing.tester import QueueTester  # noqa: PLC0415 - Django may not be set up yet

    with QueueTester() as tester:
        yield tester
