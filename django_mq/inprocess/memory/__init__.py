"""The queues of one process, in memory: for tests, small tools, and simulation.

The in-process broker decides, under its one lock, with the policy of a shared table. The store adds what a
database has: row ids, worker sessions and their deadlines, the facts for the engine's arbiter, history, bindings,
transient queues.

    store.py          the store: its parts, and what each of them needs
    row.py            one queue and one message, as rows
    session.py        one worker session
    broker.py         what all stores of one name share
    part.py           a part of the store, and the lock around its methods
    connection.py     transactions, and the clock
    dead_letters.py   dead letters, and what else leaves for another queue
    queues.py         queues and bindings
    deletions.py      queues that are emptied and deleted
    exchanges.py      exchanges
    publications.py   new messages
    sessions.py       worker sessions
    claims.py         the lease
    settlements.py    verdicts
    browser.py        counting and browsing
    operations.py     what operators do with messages
    maintenance.py    what maintenance does
    volatile.py       transient queues

What differs from a database: nothing outlives the process. Django's transactions do not concern the store; in
a transaction of its own, messages and settlements take effect with the commit. A forked child cannot reach its
parent's broker: each call raises StoreError.
"""
