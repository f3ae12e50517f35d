"""Declares limits by key, and gives them to the claims of their queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from django.utils.html import format_html_join
from django.utils.safestring import mark_safe
from django.utils.translation import gettext, gettext_lazy

from django_mq import conf
from django_mq.diagnosis.language import digits, exact
from django_mq.diagnosis.state.waiting_keys import keys_waiting
from django_mq.engine.decisions.keyed_limits import Concurrency, OpenKeyedLimits, Throttle
from django_mq.engine.decisions.rates import Rate
from django_mq.engine.options import WHAT_A_NAME_IS, is_name
from django_mq.errors import OutOfRange
from django_mq.limits import learned
from django_mq.models import LimitException, Message, Queue
from django_mq.seams.extension import Duty, Extension, Panel
from django_mq.seams.findings import notice, problem
from django_mq.seams.tiles import Tile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.http import HttpRequest

    from django_mq.engine.decisions.keyed_limits import KeyedLimit, LimitFacts
    from django_mq.seams.findings import Finding
    from django_mq.stores.base import Store

#: The name of the extension.
NAME: Final = "limits"
#: The name of a limit that is given none.
DEFAULT: Final = "default"
#: The name of the limits of tasks that Celery's workers declare, and other processes do not know.
RATES_OF_TASKS: Final = "rate_limit"
#: How many exceptions are looked at, and how many of them are named.
MOST_EXCEPTIONS: Final = 200
MOST_NAMED: Final = 3
L = TypeVar("L", Throttle, Concurrency)
_limits: dict[str, tuple[KeyedLimit, ...]] = {}


def throttle(
    queue: str,
    *,
    amount: float,
    seconds: float,
    burst: float = 1,
    key: str = "",
    type: str = "",  # noqa: A002 - as the argument of publish
    weight: str = "",
    name: str = DEFAULT,
    place: int | None = None,
) -> Throttle:
    """Let no more messages of a key of the queue begin than ``amount`` in so many ``seconds``, over all workers.

    At once no more than ``burst`` begin. What is over the throttle waits, and the messages behind it pass. Call it
    in a module that all workers import, such as that of the handlers. A second call with the name and the type
    replaces the limit. Raises OutOfRange.
    """
    rate = Rate(amount, seconds, burst)
    return declare(queue, Throttle(name=name, rate=rate, key=key, type=type, weight=weight, place=place))


def rate_limit(
    queue: str,
    *,
    amount: float,
    seconds: float,
    burst: float = 1,
    key: str = "",
    type: str = "",  # noqa: A002 - as above
    weight: str = "",
    name: str = DEFAULT,
    place: int | None = None,
) -> Throttle:
    """Do the same, but remove what is over the limit: the history says so. Raises OutOfRange."""
    rate = Rate(amount, seconds, burst)
    limit = Throttle(name=name, rate=rate, key=key, type=type, weight=weight, place=place, drops=True)
    return declare(queue, limit)


def concurrency(
    queue: str,
    at_once: int,
    *,
    key: str = "",
    type: str = "",  # noqa: A002 - as above
    name: str = DEFAULT,
    place: int | None = None,
) -> Concurrency:
    """Let no more than ``at_once`` messages of a key of the queue run at once, over all workers.

    A Celery task counts until it has ended, also if it is acknowledged when it begins. Raises OutOfRange.
    """
    return declare(queue, Concurrency(name=name, at_once=at_once, key=key, type=type, place=place))


def declare(queue: str, limit: L) -> L:
    """Limit the claims of a queue in this process. Raises OutOfRange."""
    if not is_name(queue):
        raise OutOfRange(f"A limit is for the queue {queue!r}; {WHAT_A_NAME_IS}.")
    known: tuple[KeyedLimit, ...] = limits_of(queue)
    others: list[KeyedLimit] = [each for each in known if (each.name, each.type) != (limit.name, limit.type)]
    if found := [each for each in others if each.name == limit.name and limit.shares_keys_with(each)]:
        of = f"the type {found[0].type!r}" if found[0].type else "all types"
        raise OutOfRange(
            f"The queue {queue!r} has a limit {limit.name!r} for {of}, whose keys this one could share; give this"
            " one a name of its own."
        )
    _limits[queue] = (*others, limit)
    conf.add_extension(EXTENSION)
    return limit


def withdraw(queue: str, name: str) -> None:
    """Let the limits of one name, of all types, hold no more in this process."""
    left = tuple(each for each in limits_of(queue) if each.name != name)
    if left:
        _limits[queue] = left
    else:
        forget(queue)


def limits_of(queue: str) -> tuple[KeyedLimit, ...]:
    """Return the limits by key of a queue."""
    return _limits.get(queue, ())


def forget(queue: str) -> None:
    """Forget the limits of a queue."""
    _limits.pop(queue, None)


class LimitedClaims:
    """Gives the limits to claims: see ``seams.limits``."""

    def is_for(self, queue: str) -> bool:
        return queue in _limits

    def holds_runs(self, queue: str) -> bool:
        return any(isinstance(each, Concurrency) for each in limits_of(queue))

    def opened(self, store: Store, queue: str, facts: LimitFacts) -> OpenKeyedLimits:  # noqa: ARG002 - the facts suffice
        return OpenKeyedLimits(limits_of(queue), facts)


def problem_of(row: LimitException) -> str | None:
    """Return why an exception has no effect, as a sentence; None if it has, or if the code here has no limits."""
    limits = limits_of(row.queue_name)
    if not limits or row.limit_name == RATES_OF_TASKS:
        return None
    named = [each for each in limits if each.name == row.limit_name]
    if not named:
        names = ", ".join(sorted({each.name for each in limits}))
        return f"The queue {row.queue_name!r} has no limit {row.limit_name!r}; the code declares {names}."
    if row.at_once is None and all(isinstance(each, Concurrency) for each in named):
        return f"The limit {row.limit_name!r} says how many run at once: set at_once, and not a rate."
    if row.amount is None and all(isinstance(each, Throttle) for each in named):
        return f"The limit {row.limit_name!r} says how many begin in a time: set a rate, and not at_once."
    return None


def find(alias: str) -> Iterator[Finding]:
    """Yield the limits that their queues cannot have, and exceptions without an effect."""
    for queue in Queue.objects.using(alias).filter(name__in=[*_limits]).order_by("name"):
        for each in limits_of(queue.name):
            if (why := each.problem_in(queue.options)) is not None:
                mend = f"Change the limit {each.name!r} in the code, or the options of the queue."
                yield problem(f"queue {queue.name}", why, mend)
    rows = LimitException.objects.using(alias).filter(queue_name__in=[*_limits]).order_by("pk")
    found = [(row, why) for row in rows[:MOST_EXCEPTIONS] if (why := problem_of(row)) is not None]
    for row, why in found[:MOST_NAMED]:
        mend = "Change the exception in the admin, or with manage.py mq_limits."
        yield notice(f"exception {row}", why, mend)


def tiles(alias: str) -> list[Tile]:
    """Return how many keys wait for their limits, and the queue with most of them."""
    waiting, queue = keys_waiting(using=alias)
    parked = {"state": str(Message.Status.PARKED.value)}
    title = gettext("Keys over their limits")
    note = queue or gettext("no key waits")
    return [Tile(name="waiting", title=title, value=waiting, note=note, model="message", filters=parked)]


def show(_request: HttpRequest, queue: Any) -> str:
    """Return the limits that the code declares for a queue."""
    lines = [(_sentence(each),) for each in limits_of(queue.name)]
    return format_html_join(mark_safe("<br>"), "{}", lines)


def rate_in_words(amount: float, seconds: float, burst: float) -> str:
    """Return what a rate allows, in the reader's language."""
    numbers = {"amount": digits(amount), "seconds": digits(seconds), "burst": digits(burst)}
    return gettext("%(amount)s begin in %(seconds)s s, at most %(burst)s at once") % numbers


def slots_in_words(at_once: int) -> str:
    """Return how many may run at once, in the reader's language."""
    return gettext("%(number)s run at once") % {"number": exact(at_once)}


def _sentence(limit: KeyedLimit) -> str:
    if isinstance(limit, Concurrency):
        words = [slots_in_words(limit.at_once)]
    else:
        rate = cast("Throttle", limit).rate
        words = [rate_in_words(rate.amount, rate.seconds, rate.burst)]
    if limit.key:
        words.append(gettext("for each value of %(key)s") % {"key": limit.key})
    elif not limit.type:
        words.append(gettext("the whole queue"))
    if limit.type:
        words.append(gettext("of the type %(type)s") % {"type": limit.type})
    removes = isinstance(limit, Throttle) and limit.drops
    words.append(gettext("what is over it is removed") if removes else gettext("what is over it waits"))
    return f"{limit.name}: {'; '.join(words)}"


def prune(store: Any, limit: int) -> int:
    return int(store.rates.prune(limit))


EXTENSION: Final = Extension(
    name=NAME,
    limits=(LimitedClaims(),),
    middleware=(learned.LearnedLimits(limits_of),),
    duties=(Duty(name="prune_limits", run=prune, interval_seconds=60),),
    findings=(find,),
    tiles=(tiles,),
    panels=(Panel(page="queue", title=gettext_lazy("Limits by key"), content=show),),
)
