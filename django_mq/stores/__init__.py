"""The database is the truth: every state change is one named statement in a store.

All times are of the database's clock (``{now}`` in the statements). Leases belong to worker sessions. A claimed
row has its session and a claim token, and every settlement names both, so that a session which was reaped and
comes back changes nothing.

    append ──> scheduled ──due──> ready ──claim──> claimed ──accept──> (history)
                   ^                ^                │ │
                   └──release later─┼──── release ───┘ └──dead──> dead, or the dead-letter queue

``base.py`` is the interface, ``records.py`` has its values, ``sql`` has the parts of a database's store, each for
one subject, and the folder of a database has its statements. ``tests/stores/conformance`` defines a store.
"""
