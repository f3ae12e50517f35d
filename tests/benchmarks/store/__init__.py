"""What a queue costs, each figure beside a raw limit of the same run: ``python -m tests.benchmarks``.

Absolute figures of one machine say little; ratios to what the same database does without us,
medians of repeats that take turns, can be compared. Everything is bounded in count and time,
uses queues and tables of its own, and cleans up.

    figures.py      names, targets, a table
    catalogue.py    names to measuring functions
    environment.py  the database, its raw limits and the amounts; given to each measurement
    schema.py       tables of one's own on PostgreSQL, dropped as a whole
    raw.py          the limits: plain SQL over plain connections of the driver
    child.py        processes that work side by side
    publishing.py   publish and publish_many
    draining.py     the native worker, one process and two
    picking_up.py   the native worker when it is idle
    filling.py      millions of messages, made inside the database
    claiming.py     a claim at the head of a large queue
    churning.py     a claim after millions of messages have passed
    waking.py       wake-ups and claims of idle sessions
    idling.py       statements of idle workers
    remembering.py  a worker's memory beside a large queue
"""
