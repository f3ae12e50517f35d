"""The scenarios that a store does not play, each with the reason: the one list there is.

``test_stored_scenarios`` compares it with what happens on each store: a scenario that passes on a
store may not stand here for that store, and a scenario that does not pass must.
"""

from typing import Final, NamedTuple

MEMORY: Final = ("memory",)
SQL: Final = ("sqlite", "postgresql", "mysql")
ALL: Final = MEMORY + SQL


class Left(NamedTuple):
    """Scenarios that some stores leave out, each named by its file and its id."""

    reason: str
    scenarios: str
    stores: tuple[str, ...] = ALL


LEFT_OUT: Final = (
    Left(
        "a claimed message is not taken back",
        """
            own_qpid-Q01-ring-steals
        """,
        SQL,
    ),
    Left(
        "a claimed message that was purged, cancelled or expired is not gone when it is given back",
        """
            own_qpid-Q09-purge own_qpid-Q11-delete-message own_qpid-Q45-expiry-steals
        """,
    ),
    Left(
        "an exclusive consumer is a slot of its queue, and refuses no other consumer",
        """
            own_qpid-Q36-exclusive-refuses-browsers own_qpid-Q42-multi-queue-refused
            qpid-S30-exclusive-consumer
        """,
        SQL,
    ),
    Left(
        "a consumer that takes messages begins at the head; only a browser may begin at the tail",
        """
            own_qpid-Q24-tail-for-one-who-takes
        """,
        SQL,
    ),
    Left(
        "no-local is left alone: one worker runs handlers that publish and handlers that consume",
        """
            own_qpid-Q17-no-local
        """,
    ),
    Left(
        "a dead letter without a dead-letter queue stays in its queue",
        """
            own_qpid-Q52-reject qpid-S47-max-delivery-no-alternate
        """,
    ),
    Left(
        "a due message is claimed at once, without waiting for maintenance",
        """
            qpid-S39-held-message-overtaken
        """,
        MEMORY,
    ),
    Left(
        "a limit is at least 1",
        """
            own_qpid-Q15-move-respects-limits own_qpid-Q53-alternate-refuses
        """,
    ),
    Left(
        "publishers to a queue with limits wait for each other's transactions",
        """
            own_artemis-A54
        """,
        stores=SQL,
    ),
    Left(
        "a message with another priority is the same message, and no new arrival",
        """
            own_artemis-A34 own_qpid-Q16-reprioritise
        """,
    ),
    Left(
        "an expired message keeps no time to live in the expiry queue",
        """
            own_qpid-Q47-expired-there-too
        """,
    ),
    Left(
        "a queue that holds claimed messages is not deleted",
        """
            own_qpid-Q12-delete-queue own_qpid-Q13-delete-queue-without-alternate own_qpid-Q41-one-queue-less
        """,
    ),
    Left(
        "a queue whose last consumer has left is deleted when it is empty",
        """
            own_qpid-Q39-auto-delete
        """,
    ),
    Left(
        "a ring counts every message, and drops only ready ones",
        """
            own_artemis-A57 own_artemis-A59 own_qpid-Q02-ring-cannot-take-what-is-held-fast
        """,
    ),
    Left(
        "a stored queue knows no sequence of the messages of a group",
        """
            own_artemis-A09
        """,
    ),
    Left(
        "a freed group waits until its owner before has settled what it holds",
        """
            own_artemis-A10
        """,
    ),
    Left(
        "a stored message expires while it is scheduled, too",
        """
            own_artemis-A18
        """,
    ),
    Left(
        "immediate is left alone: a message is claimed, not handed over",
        """
            own_qpid-Q54-immediate-and-taken own_qpid-Q55-immediate-and-returned
            qpid-S49-immediate-without-consumer
        """,
    ),
    Left(
        "a stored pause lasts over restarts until it is ended",
        """
            artemis-S17
        """,
    ),
    Left(
        "gates are left alone",
        """
            own_artemis-A07
        """,
    ),
    Left(
        "the sessions beyond max_consumers wait for a slot, and are not refused",
        """
            own_artemis-A06
        """,
    ),
    Left(
        "a queue keeps its messages while no worker runs",
        """
            own_artemis-A56
        """,
    ),
    Left(
        "buckets are left alone: a group for each name",
        """
            own_artemis-A12
        """,
    ),
    Left(
        "a durable queue is sorted by numbers and times, not by texts",
        """
            own_qpid-Q43-sorted-as-text qpid-S34-sorted-order
        """,
        SQL,
    ),
    Left(
        "a stored queue never exceeds its limit: the publisher waits, or is refused",
        """
            own_qpid-Q07-a-stopped-producer own_qpid-Q08-flow-control-of-bytes qpid-S45-producer-flow-control
        """,
    ),
    Left(
        "the first message always passes a worker's credit of bytes",
        """
            own_qpid-Q21-window-never-lets-the-large-one-through own_qpid-Q38-auto-close-only-at-the-tail
            qpid-S29-handover-when-notified-consumer-cannot
        """,
        SQL,
    ),
    Left(
        "an exclusive queue belongs to one worker session, not to the sessions of one connection",
        """
            own_qpid-Q35-exclusive-by-connection
        """,
    ),
    Left(
        "a worker passes messages that are left to a better one: tests/stores/conformance/test_receiving.py",
        """
            qpid-S26-consumer-priority qpid-S27-consumer-priority-not-interested
        """,
        SQL,
    ),
    Left(
        "every stored message is durable",
        """
            own_artemis-A40 own_artemis-A46
        """,
    ),
    Left(
        "a hint is for idle sessions, without regard to selectors; a browser looks by itself",
        """
            own_qpid-Q28-browsers-are-all-woken own_qpid-Q62-a-browser-is-woken-for-what-it-wants
            own_qpid-Q65-who-comes-forward-is-told-itself
        """,
        SQL,
    ),
    Left(
        "maintenance visits all queues together",
        """
            own_artemis-A20
        """,
    ),
    Left(
        "the attempt of a worker that dies is not counted at once (decision 0004)",
        """
            own_artemis-A01 own_artemis-A02
        """,
    ),
    Left(
        "the first session that claims takes a slot, not the first consumer that is opened",
        """
            own_qpid-Q34-standby-of-the-highest-priority qpid-S50-live-consumer-limit
        """,
        SQL,
    ),
)


def reasons_of(store: str) -> dict[str, str]:
    """The reason for each scenario that this store leaves out."""
    return {name: left.reason for left in LEFT_OUT if store in left.stores for name in left.scenarios.split()}
