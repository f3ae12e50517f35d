"""A worker's process lets the collector of cycles begin less often, and never stops it."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from django_mq.delivery.consumer.garbage_collector import NEW_OBJECTS, collect_less_often

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def collector_as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.once
@pytest.mark.parametrize(("before", "after"), [(700, NEW_OBJECTS), (10**6, 10**6), (0, 0)])
def test_a_collection_begins_after_more_objects_unless_the_project_has_set_more_still_or_none(
    before: int, after: int
) -> None:
    gc.set_threshold(before, 5, 6)

    collect_less_often()

    assert gc.get_threshold()[0] == after
    assert gc.isenabled()


def test_what_is_there_already_is_left_out() -> None:
    collect_less_often()

    assert gc.get_freeze_count() > 0
