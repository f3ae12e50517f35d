"""The queue model in pure Python: no database, no thread, no clock of its own.

Who decides
    A queue decides alone which entry is served next and to whom. It is used in two ways. As a
    worker's *window* it holds entries that a store has claimed: they are offered, matched to the
    local consumers, and whatever becomes of them, the row's fate is written by the store and
    the window only ``accept``-s or ``remove``-s them. With a store in memory it is a whole
    *broker* in one process: messages are published to it, fail, wait, and die in it.

What is trusted
    Time is an argument, ``now``, in seconds on one clock. It may stand still or go backwards:
    what has been promoted stays ready.

Locks
    One lock per queue, taken by every public method of ``Queue`` and by nothing else in the
    package. A consumer's ``wake`` is called under it and must not call the queue.

States (the table is in ``states``)::

                     publish
                 ┌──────┴──────┐
                 ▼             ▼            deliver
            scheduled ──────▶ ready ───────────────────▶ claimed
                 ▲    promote  ▲ ▲                          │
                 │ deliver_now │ └─ release, decline, fail ─┤
                 └─────────────┼─ release, fail: retry_at ──┤
                               │                            ├─ reject ──▶ dead
                               └─────────── redrive ────────┼──────────────┘
                                                            └─ accept ──▶ gone

    Expiry, purge and removal lead from any state to gone. ``held`` is a state of its own for
    what stands in line and may not be taken.

Promised
    - Order: higher level first, then place, then arrival, for an entry's whole life. What is
      given back retakes its place.
    - Never before ``deliver_at``; never from ``expires_at`` on.
    - An entry is claimed by at most one consumer. A settlement by anybody else, or a second
      one, is void and answered False.
    - No consumer ever holds more than its credit. A paused queue delivers nothing.
    - An arrival wakes at most one competing consumer, and none that is awake; if that one does
      not do the work, another is woken.
    - A delivery costs the same however many entries, scheduled entries or consumers wait.

Not promised
    - Nothing is durable here. A delivery is not the handler's success: it may happen again.
    - Consumers are served by priority and length of idleness, not in equal shares.
    - Low levels starve while higher ones are never empty; that is what strict priority means.
"""
