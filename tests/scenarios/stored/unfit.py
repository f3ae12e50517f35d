"""The scenarios that stored queues do not play, each with the reason: the one list there is.

``test_stored_scenarios`` compares it with what happens on every store: a scenario that passes may
not stand here, and one that does not pass must.
"""

from typing import Final

#: From the reason to the scenarios, each named by its file and its id.
UNFIT: Final[dict[str, str]] = {
    "better consumers are left what they have credit for, not all: tests/stores/conformance/test_receiving.py": """
        qpid-S26-consumer-priority
    """,
    "a consumer of a stored queue has no auto_close": """
        own_qpid-Q37-auto-close-keeps-what-it-holds own_qpid-Q38-auto-close-only-at-the-tail
    """,
    "a consumer of a stored queue has no browser": """
        own_qpid-Q22-credit-of-a-browser own_qpid-Q23-browser-of-a-priority-queue
        own_qpid-Q28-browsers-are-all-woken own_qpid-Q33-groups-do-not-concern-browsers
        own_qpid-Q60-browser-at-the-end-has-passed-what-was-held
        own_qpid-Q61-browser-sees-what-it-has-not-passed qpid-S16-browser-does-not-consume
        qpid-S17-browser-not-sent-requeues qpid-S18-start-at-tail qpid-S31-auto-close-at-tail
    """,
    "a consumer of a stored queue has no exclusive": """
        own_qpid-Q36-exclusive-refuses-browsers own_qpid-Q42-multi-queue-refused qpid-S30-exclusive-consumer
    """,
    "a consumer of a stored queue has no from_tail": """
        own_qpid-Q24-tail-for-one-who-takes
    """,
    "a consumer of a stored queue has no no_local": """
        own_qpid-Q17-no-local
    """,
    "a consumer of a stored queue has no selector": """
        artemis-S33 own_artemis-A16 own_artemis-A17 own_qpid-Q27-nobody-is-woken-in-vain
        own_qpid-Q54-immediate-and-taken own_qpid-Q57-unequal-selector
        own_qpid-Q62-a-browser-is-woken-for-what-it-wants own_qpid-Q64-nobody-is-woken-who-must-wait
        own_qpid-Q65-who-comes-forward-is-told-itself qpid-S14-selector-skips-without-removing
        qpid-S27-consumer-priority-not-interested
    """,
    "a dead letter with nowhere to go stays where it is, as dead": """
        own_qpid-Q52-reject qpid-S47-max-delivery-no-alternate
    """,
    "a duplicate is refused when it is published, and its unit of work goes on": """
        own_artemis-A50
    """,
    "a last value is not stored in advance": """
        own_artemis-A61
    """,
    "a limit is at least 1": """
        own_qpid-Q15-move-respects-limits own_qpid-Q53-alternate-refuses
    """,
    "a move, a dead letter and a change of priority are no arrivals: nothing is counted twice": """
        artemis-S24 own_artemis-A19 own_artemis-A34 own_artemis-A36 own_qpid-Q14-move
        own_qpid-Q16-reprioritise own_qpid-Q47-expired-there-too qpid-S48-expiry-to-alternate
    """,
    "a queue that holds claimed messages is not deleted": """
        own_qpid-Q13-delete-queue-without-alternate own_qpid-Q41-one-queue-less
    """,
    "a seat is taken by the first session that claims, and not by who comes first": """
        own_qpid-Q34-standby-of-the-highest-priority qpid-S50-live-consumer-limit
    """,
    "a stored delay is not cut to whole ticks": """
        own_artemis-A29
    """,
    "a stored group has an owner as long as that one's session lives": """
        own_artemis-A09 own_artemis-A10
    """,
    "a stored message expires while it is scheduled, too": """
        own_artemis-A18
    """,
    "a stored message is claimed, not handed over": """
        own_qpid-Q55-immediate-and-returned qpid-S49-immediate-without-consumer
    """,
    "a stored pause lasts until it is ended, over restarts too": """
        artemis-S17
    """,
    "a stored queue has a group for each name, and no buckets": """
        own_artemis-A12
    """,
    "a stored queue has no auto_delete": """
        own_qpid-Q39-auto-delete qpid-S32-auto-delete
    """,
    "a stored queue has no consumers_before": """
        own_artemis-A07
    """,
    "a stored queue has no max_consumers": """
        own_artemis-A06
    """,
    "a stored queue has no nondestructive": """
        artemis-S36 own_artemis-A62 own_artemis-A63 own_qpid-Q58-nondestructive-purge
        qpid-S19-nondestructive-queue
    """,
    "a stored queue has no purge_on_no_consumers": """
        own_artemis-A56
    """,
    "a stored queue is none of kind sorted": """
        own_qpid-Q43-sorted-as-text qpid-S34-sorted-order
    """,
    "a stored queue remembers nobody who has declined": """
        own_qpid-Q51-counts own_qpid-Q63-nobody-is-woken-for-what-it-declined
        qpid-S15-decline-hides-from-one-consumer
    """,
    "a stored queue remembers so many duplicate ids at least, until upkeep comes": """
        own_artemis-A45
    """,
    "a worker's credit counts messages": """
        own_qpid-Q21-window-never-lets-the-large-one-through qpid-S22-byte-credit-head-of-line
        qpid-S23-byte-credit-other-consumer-takes-blocker qpid-S24-combined-message-and-byte-credit
        qpid-S29-handover-when-notified-consumer-cannot
    """,
    "an attempt that a dying worker had under way is not counted at once (decision 0005)": """
        own_artemis-A01 own_artemis-A02
    """,
    "an exclusive queue belongs to a worker session, and connections have none in common": """
        own_qpid-Q35-exclusive-by-connection
    """,
    "every stored message is durable": """
        own_artemis-A40 own_artemis-A46
    """,
    "in a ring everything counts, and only what is ready makes room": """
        own_artemis-A57 own_artemis-A59 own_qpid-Q02-ring-cannot-take-what-is-held-fast
    """,
    "of a stored group one message at a time is given out": """
        artemis-S28 own_artemis-A08 own_qpid-Q30-standard-group-passes-on
        own_qpid-Q31-shared-default-group own_qpid-Q32-shared-group-stays-while-one-is-held
        qpid-S37-standard-groups
    """,
    "over its limit a stored queue holds no more: the publisher waits, or is refused": """
        own_qpid-Q07-a-stopped-producer own_qpid-Q08-flow-control-of-bytes qpid-S45-producer-flow-control
    """,
    "priorities are 0 to 9": """
        own_qpid-Q59-two-kinds-of-nothing qpid-S09-priority-ten-levels
    """,
    "the history tells what was cancelled from what was accepted": """
        own_artemis-A28
    """,
    "the memory store takes nothing back that was published in a transaction": """
        own_artemis-A51
    """,
    "upkeep looks at all queues together": """
        own_artemis-A20
    """,
    "what a session held goes back when it ends, whatever a transaction meant to do with it": """
        own_artemis-A49
    """,
    "what a session holds goes back when it ends": """
        own_qpid-Q56-close-without-requeue
    """,
    "what is claimed is not taken back (no stealable consumers)": """
        own_qpid-Q01-ring-steals own_qpid-Q05-a-settlement-has-begun own_qpid-Q09-purge
        own_qpid-Q11-delete-message own_qpid-Q12-delete-queue own_qpid-Q44-last-value-does-not-steal
        own_qpid-Q45-expiry-steals
    """,
    "what is due is claimed at once, without waiting for housekeeping": """
        own_qpid-Q49-held qpid-S39-held-message-overtaken
    """,
    "what is published in a transaction is dropped at its commit, and nobody is told": """
        own_artemis-A54
    """,
    "who is woken is the hints' business: tests/notifications": """
        own_qpid-Q25-pausing-hands-over own_qpid-Q26-spent-credit-hands-over own_qpid-Q29-closing-hands-over
        qpid-S28-wake-only-as-many-as-needed
    """,
}

#: From a scenario to the reason.
REASONS: Final[dict[str, str]] = {name: reason for reason, names in UNFIT.items() for name in names.split()}
