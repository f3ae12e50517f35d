"""Django's tasks are members of batches: they count by how they end, and repetitions are one member."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_mq.api import batch, batch_state, cancel
from django_mq.batches.duty import look_again
from django_mq.engine.decisions.batches import BatchCounts
from django_mq.models import Message
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("task", "given", "removed", "counts"),
    [
        ("add", (1,), False, BatchCounts(succeeded=1)),
        # It is repeated, and succeeds at its last attempt.
        ("which_attempt", (2,), False, BatchCounts(succeeded=1)),
        ("which_attempt", (9,), False, BatchCounts(failed=1)),
        ("add", (1,), True, BatchCounts(cancelled=1)),
    ],
)
def test_a_task_counts_by_how_it_ends(  # noqa: PLR0917 - a table
    alias: str, work: Any, run: Callable[[], None], task: str, given: tuple[int, ...], removed: bool, counts: Any
) -> None:
    with batch(using=alias) as made:
        getattr(work, task).enqueue(*given)
    if removed:
        cancel(Message.objects.using(alias).values_list("message_id", flat=True)[:1], using=alias)
    run()
    look_again(shared_store(alias), 100)

    assert batch_state(made.id, using=alias).counts == counts
