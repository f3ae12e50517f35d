"""The steps that settle a delivery."""

from typing import TYPE_CHECKING, Final

from django_mq.engine.states import Fate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from django_mq.inprocess.consumers.consumer import Consumer
    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.queue import Queue
    from tests.scenarios.fields import Fields
    from tests.scenarios.qpid.stage import Stage

WORDS: "Final[Mapping[Fate, str]]" = {
    Fate.VOID: "ignored",
    Fate.ACCEPTED: "acked",
    Fate.RETURNED: "released",
    Fate.DEAD: "dead",
    Fate.DEAD_LETTERED: "dead_lettered",
    Fate.DISCARDED: "discarded",
}


def ack(stage: "Stage", step: "Fields") -> str:
    """Done."""
    return _settle(stage, step, lambda queue, entry, consumer: queue.accept(entry, consumer))


def release(stage: "Stage", step: "Fields") -> str:
    """Given back undamaged."""
    return _settle(stage, step, lambda queue, entry, consumer: queue.release(entry, consumer))


def fail(stage: "Stage", step: "Fields") -> str:
    """Given back as failed."""
    return _settle(stage, step, lambda queue, entry, consumer: queue.fail(entry, consumer, now=stage.now))


def reject(stage: "Stage", step: "Fields") -> str:
    """Refused for good."""
    return _settle(stage, step, lambda queue, entry, consumer: queue.reject(entry, consumer, now=stage.now))


def decline(stage: "Stage", step: "Fields") -> str:
    """Not for this consumer."""
    return _settle(stage, step, lambda queue, entry, consumer: queue.decline(entry, consumer))


def _settle(stage: "Stage", step: "Fields", settle: "Callable[[Queue, Entry, Consumer], Fate]") -> str:
    sent = stage.reader(step).sent(step.need("message", str))
    if sent is None:
        return WORDS[Fate.VOID]
    queue, consumer, entry = sent
    return WORDS[settle(queue, entry, consumer)]


def begin_settle(stage: "Stage", step: "Fields") -> str:
    """From now on it cannot be stolen."""
    sent = stage.reader(step).sent(step.need("message", str))
    if sent is None:
        return "ignored"
    queue, consumer, entry = sent
    return "locked" if queue.begin_settle(entry, consumer) else "ignored"
