"""The queues of one process, in memory: for tests, small tools, and simulation.

The engine's broker decides, under its one lock, with the policy of a shared table. Around it stands what a
database adds: row ids, worker sessions and their deadlines, the facts about them that the engine's arbiter
asks for, history, bindings, transient queues.

    store.py        a handle: hands each call to the part of its subject, under the broker's lock
    broker.py       what all handles of one name share, one queue of it, and what takes effect with a commit
    row.py          one message
    queues.py       queues and bindings; publishing
    sessions.py     worker sessions
    claims.py       the lease
    settlements.py  verdicts
    operations.py   what operators see and do, and maintenance
    volatile.py     transient queues

What differs from a database: nothing outlives the process. Django's transactions do not concern the store; in
a transaction of its own, messages and settlements take effect with the commit. A forked child cannot reach its
parent's broker: each call raises StoreError.
"""
