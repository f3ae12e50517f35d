"""The database is the truth: every state change is one named statement in a store.

Who decides: the database. Which time: the database's clock, one expression per store
(``{now}`` in the statements). Leases belong to worker sessions; a claimed row carries
its session and a claim token, and every settlement names both, so that a session which
was reaped and comes back changes nothing.

    append ──> scheduled ──due──> ready ──claim──> claimed ──accept──> (history)
                   ^                ^                │ │
                   └──release later─┼──── release ───┘ └──dead──> dead, or the dead-letter queue

``base.py`` is the interface, ``records.py`` the values that cross it, ``sql`` the store of a database in parts,
each with one subject, one folder per database holds the statements, and
``tests/stores/conformance`` is what a store is.
"""
