"""A complete message broker in the memory of one process.

Used by
    ``:memory:`` in place of a database alias, for tests and small tools (``django-mq:///:memory:`` for Celery);
    what-if, which replays the history with other settings; and the tests, as the reference of the queue model:
    the scenarios of Qpid and Artemis play on it, and the agreement test compares every store with it. The
    queues of a database need none of it: their rules are in ``engine/``, their order, leases and sums in SQL.

Files, in the order a message meets them
    ``rules`` are the settings of a queue. ``broker`` finds queues by name, ``queue`` is the interface of one
    queue, and ``work`` is a unit of work. ``parts/`` are what a queue consists of, ``entries/`` has what it holds,
    and ``consumers/`` consumers, groups and dispatch. ``memory/`` is the store over the broker, which
    ``stores.registry`` imports by name.

Locks
    One lock per queue, or one for all queues of a broker. Each method of ``Queue``, ``Control``, ``Broker`` and
    ``UnitOfWork`` takes it, and the memory store around each of its calls. Nothing else here takes a lock. A
    consumer's ``wake`` is called under the lock and must not call the queue.

States (the table is in ``engine.states``)::

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
