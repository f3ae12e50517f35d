"""The queue model in pure Python: no database, no thread, no clock of its own.

Who decides
    The decisions of durable queues are functions over plain values: ``verdict``, ``arbiter``,
    ``claim``, ``routing`` and others. A queue of the engine decides alone, by the same code,
    which entry is served next and to whom: with a store in memory it is a whole *broker*, to
    which messages are published, and in which they fail, wait, and die.

What is trusted
    Time is an argument, ``now``, in seconds on one clock. It may stand still or go backwards:
    what has been promoted stays ready.

Where to look
    ``Queue`` is what one uses, ``Rules`` what it is told to be, and ``Broker`` many of them.
    It takes the lock and hands the work to the parts: ``Contents`` keeps each
    entry where its state belongs, ``Dispatch`` decides who gets which, ``Consumers`` knows who
    waits, an ``EntryList`` keeps the order, ``Capacity`` the limits, ``Groups`` who owns what, and
    ``Afterlife`` where the dead go.

Locks
    One lock per queue, or one for all queues of a broker; every method of a queue takes it, and nothing
    else in the package does but ``Timer``, which has its own. A consumer's
    ``wake`` is called under it and must not call the queue.

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

    Expiry, purge and removal lead from any state to gone. ``held`` stands in line like a ready
    entry, and may not be taken before its time. ``stealable`` is a claimed entry that the queue
    may still take back, until its consumer begins to settle.

Promised
    - Order: higher level first, then place, then arrival, for an entry's whole life. What is
      given back retakes its place.
    - Never before ``deliver_at``; never from ``expires_at`` on.
    - An entry is claimed by at most one consumer. A settlement by anybody else, or a second
      one, is void, and its answer is false.
    - No consumer ever holds more than its credit. A paused queue delivers nothing.
    - An arrival wakes at most one competing consumer, and none that is awake; if that one does
      not do the work, another is woken.
    - A delivery costs the same however many entries, scheduled entries or consumers wait.

Not promised
    - Nothing is durable here. A delivery is not the handler's success: it may happen again.
    - Those who pull are served as they pull; idle ones are woken by priority, then the longest
      idle. Only ``deliver_next`` gives equals equal turns.
    - Low levels starve while higher ones are never empty; that is what strict priority means.
"""
