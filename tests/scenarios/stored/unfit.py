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
            own_qpid-Q01-ring-steals own_qpid-Q05-a-settlement-has-begun own_qpid-Q44-last-value-does-not-steal
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
        "a consumer of a stored queue has no auto_close",
        """
            own_qpid-Q37-auto-close-keeps-what-it-holds own_qpid-Q38-auto-close-only-at-the-tail
        """,
        SQL,
    ),
    Left(
        "a consumer of a stored queue has no exclusive",
        """
            own_qpid-Q36-exclusive-refuses-browsers own_qpid-Q42-multi-queue-refused
            qpid-S30-exclusive-consumer
        """,
        SQL,
    ),
    Left(
        "a consumer of a stored queue has no from_tail",
        """
            own_qpid-Q24-tail-for-one-who-takes
        """,
        SQL,
    ),
    Left(
        "a consumer of a stored queue has no no_local",
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
            own_qpid-Q49-held qpid-S39-held-message-overtaken
        """,
    ),
    Left(
        "a last value is not scheduled",
        """
            own_artemis-A61
        """,
        SQL,
    ),
    Left(
        "a limit is at least 1",
        """
            own_qpid-Q15-move-respects-limits own_qpid-Q53-alternate-refuses
        """,
    ),
    Left(
        "a message that is dropped at the commit of its transaction is not reported to its publisher",
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
        "workers claim for themselves, and take no turns",
        """
            own_artemis-A08
        """,
    ),
    Left(
        "a freed group waits until its owner before has settled what it holds",
        """
            own_artemis-A10
        """,
    ),
    Left(
        "a stored delay is not cut to whole ticks",
        """
            own_artemis-A29
        """,
    ),
    Left(
        "a stored message expires while it is scheduled, too",
        """
            own_artemis-A18
        """,
    ),
    Left(
        "a stored message is claimed, not handed over",
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
        "a stored queue has no consumers_before",
        """
            own_artemis-A07
        """,
    ),
    Left(
        "a stored queue has no max_consumers",
        """
            own_artemis-A06
        """,
    ),
    Left(
        "a stored queue has no nondestructive",
        """
            artemis-S36 own_artemis-A62 own_artemis-A63 own_qpid-Q58-nondestructive-purge
            qpid-S19-nondestructive-queue
        """,
        SQL,
    ),
    Left(
        "a stored queue has no purge_on_no_consumers",
        """
            own_artemis-A56
        """,
    ),
    Left(
        "a stored queue has one group for each name, and no buckets",
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
        "a stored queue remembers more duplicate ids than it must, until maintenance runs",
        """
            own_artemis-A45
        """,
    ),
    Left(
        "a worker's credit counts messages",
        """
            own_qpid-Q21-window-never-lets-the-large-one-through qpid-S22-byte-credit-head-of-line
            qpid-S23-byte-credit-other-consumer-takes-blocker qpid-S24-combined-message-and-byte-credit
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
        "better consumers get what they have credit for: tests/stores/conformance/test_receiving.py",
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
        "hints decide which consumer is woken: tests/notifications",
        """
            own_qpid-Q25-pausing-hands-over own_qpid-Q26-spent-credit-hands-over
            own_qpid-Q27-nobody-is-woken-in-vain own_qpid-Q28-browsers-are-all-woken
            own_qpid-Q29-closing-hands-over own_qpid-Q62-a-browser-is-woken-for-what-it-wants
            own_qpid-Q63-nobody-is-woken-for-what-it-declined
            own_qpid-Q64-nobody-is-woken-who-must-wait own_qpid-Q65-who-comes-forward-is-told-itself
            qpid-S28-wake-only-as-many-as-needed
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
        "priorities are 0 to 9",
        """
            own_qpid-Q59-two-kinds-of-nothing qpid-S09-priority-ten-levels
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
    Left(
        "the history tells cancelled messages from accepted ones",
        """
            own_artemis-A28
        """,
    ),
    Left(
        "the messages of a session that ends always go back",
        """
            own_qpid-Q56-close-without-requeue
        """,
    ),
    Left(
        "the messages of a session that ends go back, even those that a transaction was about to settle",
        """
            own_artemis-A49
        """,
        stores=SQL,
    ),
)


def reasons_of(store: str) -> dict[str, str]:
    """The reason for each scenario that this store leaves out."""
    return {name: left.reason for left in LEFT_OUT if store in left.stores for name in left.scenarios.split()}
