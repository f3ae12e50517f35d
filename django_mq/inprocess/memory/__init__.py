"""The queues of one process, in memory: for tests, small tools, and simulation.

The engine's broker decides, under its one lock, with the policy of a shared table. The store adds what a
database has: row ids, worker sessions and their deadlines, the facts for the engine's arbiter, history, bindings,
transient queues.

    store.py        the store: hands each call to the part of its subject, under the broker's lock
    broker.py       what all stores of one name share, one queue, and transactions
    row.py          one message
    queues.py       queues and bindings; publishing
    exchanges.py    exchanges
    sessions.py     worker sessions
    claims.py       the lease
    settlements.py  verdicts
    operations.py   browsing, steering, and maintenance
    volatile.py     transient queues

What differs from a database: nothing outlives the process. Django's transactions do not concern the store; in
a transaction of its own, messages and settlements take effect with the commit. A forked child cannot reach its
parent's broker: each call raises StoreError.
"""
