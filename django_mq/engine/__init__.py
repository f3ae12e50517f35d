"""The queue model in pure Python: no database, no thread, no clock of its own.

What it decides
    ``verdict``, ``arbiter``, ``claim``, ``routing`` and others are functions over plain values, which
    every store calls. ``Queue`` uses the same functions to decide alone which consumer gets which
    entry. With a store in memory the engine is a complete message broker.

Time
    Every call takes the time as an argument, ``now``, in seconds on one clock. The clock may stand still
    or go backwards: a message that became ready stays ready.

Files, in the order a message meets them
    ``names``, ``options`` and ``rules`` declare a queue. ``message`` is what is published. ``broker`` finds queues
    by name, ``queue`` is the interface of one queue, and ``work`` is a unit of work. ``decisions/`` has what every
    store calls, too: position, expiry, duplicates, routing, claims, verdicts. ``entries/`` has what a queue holds,
    and ``states`` the states of an entry. ``consumers/`` has consumers, credit and dispatch. ``selector``
    and ``expressions`` are the language of conditions on messages.

Locks
    One lock per queue, or one for all queues of a broker. Every method of a queue takes it. Nothing
    else in the package takes a lock. A consumer's
    ``wake`` is called under the queue's lock and must not call the queue.

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

    Expiry, purge and removal lead from any state to gone. A ``held`` entry stands in line like a ready
    one, and cannot be claimed before its time. ``stealable`` is a claimed entry that the queue
    may still take back, until its consumer begins to settle.

Promised
    - Order: higher level first, then place, then arrival, for an entry's whole life. A returned
      entry stands in its old place.
    - No delivery before ``deliver_at``, and none from ``expires_at`` on.
    - At most one consumer holds an entry. A settlement by another consumer, or a second
      settlement, is void and returns a false value.
    - No consumer ever holds more than its credit. A paused queue delivers nothing.
    - An arrival wakes at most one idle consumer that competes for entries. If that consumer leaves
      entries in the queue, another one is woken.
    - A delivery costs the same however many entries, scheduled entries or consumers wait.

Not promised
    - Nothing is durable here. A delivered message may be delivered again until it is settled.
    - Consumers that pull are served in the order of their calls. Idle ones are woken by priority, then
      the longest idle. Only ``deliver_next`` gives consumers of one priority equal turns.
    - Low levels starve while higher ones are never empty: priority is strict.
"""
