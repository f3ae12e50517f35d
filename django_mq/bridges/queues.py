"""The option of queues, and which queues have a bridge."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final

from django.db import connections

from django_mq import conf, outages
from django_mq.bridges.declared import bridge_named
from django_mq.engine.decisions.ends import KEPT
from django_mq.engine.options import Option
from django_mq.errors import BridgeMisused, InvalidMessage, ResultElsewhere, StoreUnavailable, shown
from django_mq.stores import queue_records
from django_mq.stores.connections import translating

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from threading import Event

    from django_mq.engine.decisions.receivers import Carrier
    from django_mq.stores.base import Store
    from django_mq.stores.records import NewMessage


#: How long a key is unique that nothing but the end of the work frees.
FINISHED: Final = "finished"


def _fault(name: str) -> str | None:
    """Return what is wrong with the name of a bridge. The settings are read as written: they are being checked."""
    bridges = conf.raw().get("BRIDGES", {})
    if not isinstance(bridges, dict) or name in bridges:
        return None
    known = ", ".join(sorted(map(str, bridges))) or "none"
    return f"it is no bridge of DJANGO_MQ['BRIDGES'], which has {shown(known)}"


def _(text: str) -> str:
    """Mark a text for translation."""
    return text


OPTION: Final = Option(
    name="bridge",
    type="str | None",
    length=100,
    label=_("bridge"),
    help=_("The bridge of DJANGO_MQ['BRIDGES'] through which workers send the messages on to another broker."),
    section="Bridge",
    at_publishing=True,
    refuse=_fault,
)


def refuse_unholdable(store: Store, messages: Sequence[NewMessage]) -> None:
    """Raise InvalidMessage for a message whose key would be unique until it is finished, or whose result is kept.

    It is finished elsewhere, which is not told here. The caller's transaction is rolled back to before the write.
    """
    for message in messages:
        is_held = message.unique is not None and message.unique.rule.until == FINISHED
        wants_result = message.told_to is not None and KEPT in message.told_to.split()
        if not (is_held or wants_result):
            continue
        record = queue_records.known(store, message.queue_name)
        if record is None or not bridge_of(record):
            continue
        if wants_result:
            raise ResultElsewhere(
                f"The queue {message.queue_name!r} has a bridge: its messages are handled elsewhere, and no result"
                " comes back. Publish without keep_result_seconds, and not by call(); let the other side publish"
                " its answer to a queue."
            )
        raise InvalidMessage(
            f"The queue {message.queue_name!r} has a bridge, and the other broker does not tell"
            " when the message is finished. Make it unique until it begins, or for a window: its key is"
            " then free when the message is forwarded, or after that time."
        )


def bridge_of(queue: Any) -> str | None:
    """Return the name of the bridge of a queue: a record, a row or options. The settings may have it no more."""
    return queue.added.get(OPTION.name) or None


def bridged_queues(alias: str) -> dict[str, str]:
    """Return the name of the bridge of each queue that has one; no queue is read in a site without bridges.

    A queue that exists has the options of its row. Raises StoreError.
    """
    from django_mq.models import Queue  # noqa: PLC0415 - apps may still be loading

    if not conf.load().BRIDGES:
        return {}
    found = {name: bridge_of(options) for name, options in conf.load().QUEUES.items()}
    with translating(connections[alias]):
        found |= {queue.name: bridge_of(queue) for queue in Queue.objects.using(alias)}
    return {name: bridge for name, bridge in found.items() if bridge is not None}


def bridged_when_reachable(alias: str, stopping: Event) -> dict[str, str]:
    """Return the same, and wait while the database is away: a worker must not start without its bridges.

    Returns none if ``stopping`` is set meanwhile.
    """
    outage = outages.database(alias)
    found: dict[str, str] = {}
    for failures in count():
        try:
            found = bridged_queues(alias)
        except StoreUnavailable as error:
            outage.failed(bridged_when_reachable, error)
            connections[alias].close()
            if stopping.wait(outages.pause_seconds(failures)):
                outage.leave(bridged_when_reachable)
                return {}
        else:
            break
    outage.succeeded(bridged_when_reachable)
    return found


def carried_by(carrier: Carrier, queues: dict[str, str]) -> dict[str, str]:
    """Return the queues with a bridge that processes of a kind forward. Raises ConfigurationError."""
    return {
        queue: bridge for queue, bridge in queues.items() if bridge_named(bridge).options.is_carried_by(carrier)
    }


def by_bridge(queues: dict[str, str]) -> dict[str, list[str]]:
    """Return the queues of each bridge."""
    found: dict[str, list[str]] = {}
    for queue, bridge in sorted(queues.items()):
        found.setdefault(bridge, []).append(queue)
    return found


def check_handled(handled: Collection[str], queues: dict[str, str]) -> None:
    """Raise BridgeMisused if a queue has both a handler and a bridge: each would get a part of the messages."""
    if both := sorted(set(handled) & queues.keys()):
        name = both[0]
        raise BridgeMisused(
            f"The queue {name!r} has a handler and the bridge {queues[name]!r}."
            " Remove one of them: each would get a part of the messages."
        )
