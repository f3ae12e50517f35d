"""Hints: wake-ups that may be lost. The database is the truth, a hint only shortens the wait.

A hint is a topic, ``q:NAME`` for a queue or ``v:NAME`` for a volatile one. A publisher
sends topics after its commit; a worker's listener sets the worker's wake when one of its
topics is named. Losing every hint costs at most one safety poll.

    base.py     Notifier (sends) and Listener (hears)
    wake.py     what a listener sets and an event loop watches
    local.py    within this process
    redis.py    between processes, through Redis
    posting.py  how the latter sends without waiting
"""
