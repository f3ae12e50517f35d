"""Dead letters must not travel in a circle: whoever names a dead-letter queue asks here first."""

from __future__ import annotations

from django_mq.models import Queue


def leads_back(name: str, target: str | None, *, using: str) -> bool:
    """Return whether dead letters of a queue, if they went to ``target``, would come back to it.

    A circle that is there already and does not pass through the queue is not its business.
    """
    linked = Queue.objects.using(using).exclude(dead_letter_queue=None)
    following = dict(linked.values_list("name", "dead_letter_queue__name"))
    seen: set[str] = set()
    while target is not None and target not in seen:
        if target == name:
            return True
        seen.add(target)
        target = following.get(target)
    return False
