"""The queues of one process, in memory: for tests, small tools, and simulation.

The engine's broker decides, under its one lock, with the policy of a shared table. Around it stands what a
database adds: row ids, worker sessions and their deadlines, the facts about them that the engine's arbiter
asks for, history, bindings, the volatile lane. The time is this machine's, with an offset for tests that
belongs to the broker.

    broker.py     the state, found by its name: every handle of one name shares it. It listens to the engine
    queue.py      one queue: the engine's queue, made by its options, and what a table would say besides
    row.py        one message: what a table would say besides what the engine's entry does
    transaction.py what takes effect with a commit
    session.py    one worker session: one consumer of the engine for each queue it claimed from
    history.py    what is remembered of finished messages and failed attempts
    runner.py     a handle, and the lock around each of its methods

The other files are the duties of a store, named as those of the SQL stores.

What differs: nothing outlives the process; Django's transactions do not concern it, and in one of its own
messages and settlements take effect with the commit; a forked child cannot reach its parent's broker, and
is told so.
"""
