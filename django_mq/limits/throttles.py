"""Declares throttles, and gives them to the claims of their queues."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from django_mq import conf
from django_mq.engine.decisions.keyed_rates import OpenThrottles, Throttle
from django_mq.engine.decisions.rates import Rate
from django_mq.engine.options import WHAT_A_NAME_IS, is_name
from django_mq.errors import OutOfRange
from django_mq.limits import learned
from django_mq.models import Queue
from django_mq.seams.extension import Duty, Extension
from django_mq.seams.findings import problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.seams.findings import Finding
    from django_mq.stores.base import Store

#: The name of the extension.
NAME: Final = "limits"
_throttles: dict[str, tuple[Throttle, ...]] = {}


def throttle(
    queue: str,
    *,
    amount: float,
    seconds: float,
    burst: float = 1,
    key: str = "",
    type: str = "",  # noqa: A002 - as the argument of publish
    weight: str = "",
    name: str = "default",
) -> Throttle:
    """Let no more messages of a key of the queue begin than ``amount`` in so many ``seconds``, over all workers.

    At once no more than ``burst`` begin. What is over the throttle waits, and the messages behind it pass. Call it
    in a module that all workers import, such as that of the handlers. A second call with the name replaces the
    throttle. Raises OutOfRange.
    """
    if not is_name(queue):
        raise OutOfRange(f"A throttle is for the queue {queue!r}; {WHAT_A_NAME_IS}.")
    declared = Throttle(name, Rate(amount, seconds, burst), key, type, weight)
    others = tuple(each for each in _throttles.get(queue, ()) if each.name != name)
    _throttles[queue] = (*others, declared)
    conf.add_extension(EXTENSION)
    return declared


def throttles_of(queue: str) -> tuple[Throttle, ...]:
    """Return the throttles of a queue."""
    return _throttles.get(queue, ())


class ThrottledClaims:
    """Gives the throttles to claims: see ``seams.limits``."""

    def is_for(self, queue: str) -> bool:
        return queue in _throttles

    def opened(self, store: Store, queue: str) -> OpenThrottles:
        known = store.rates.facts(queue)._asdict()
        return OpenThrottles(_throttles[queue], **known, write=partial(store.rates.use, queue))


def find(alias: str) -> Iterator[Finding]:
    """Yield the throttles that their queues cannot have."""
    for queue in Queue.objects.using(alias).filter(name__in=[*_throttles]).order_by("name"):
        for each in throttles_of(queue.name):
            if (why := each.problem_in(queue.options)) is not None:
                mend = f"Change the throttle {each.name!r} in the code, or the options of the queue."
                yield problem(f"queue {queue.name}", why, mend)


def prune(store: Any, limit: int) -> int:
    return int(store.rates.prune(limit))


EXTENSION: Final = Extension(
    name=NAME,
    limits=(ThrottledClaims(),),
    middleware=(learned.LearnedLimits(throttles_of),),
    duties=(Duty(name="prune_limits", run=prune, interval_seconds=60),),
    findings=(find,),
)
