"""Tasks of Django's interface in a queue that keys share: the key is a header, or an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.models import Message, Queue
from django_mq.stores import queue_records

if TYPE_CHECKING:
    from collections.abc import Callable


def test_tasks_run_in_turns_by_the_header_or_else_the_argument(
    alias: str, work: Any, run: Callable[[], None]
) -> None:
    Queue.objects.using(alias).filter(name="default").update(fair_by="one", due_order="keep_place")
    queue_records.forget(alias, "default")
    for number in range(3):
        work.add.enqueue("a", number)
    work.add.enqueue(one="b", two=3)
    work.add.using(headers={"one": "c"}).enqueue("a", 4)
    work.add.enqueue(7, 5)

    keys = Message.objects.using(alias).order_by("id").values_list("headers__one", flat=True)
    assert list(keys) == ["a", "a", "a", "b", "c", 7]
    run()
    assert [two for _, two in work.ran] == [0, 3, 4, 5, 1, 2]
