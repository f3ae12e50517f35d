"""The queues of one process, in memory: for tests, small tools, and simulation.

Who decides: the broker, under its one lock. It orders nothing by itself: each of its queues is
a queue of the engine, which keeps order, places, due times and claims, and tells a late
verdict by the claim's number. Around it stands what a database adds: row ids, worker
sessions and their deadlines, suspects, dead letters, limits, history, the volatile lane.
Which time: this machine's, with an offset for tests that belongs to the broker.

    broker.py     the state, found by its name: every handle of one name shares it
    queue.py      one queue: its settings, its rows, and the engine's queue that orders them
    row.py        one message
    session.py    one worker session: one consumer of the engine for each queue it claimed from
    history.py    what is remembered of finished messages and failed attempts
    runner.py     a handle, and the lock around each of its methods

The other files are the duties of a store, named as those of the SQL stores.

What differs: nothing outlives the process; there is no transaction to join, so that
``append`` takes effect at once; a forked child cannot reach its parent's broker, and is told so.
"""
