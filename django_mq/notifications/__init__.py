"""Hints: wake-ups that may be lost. The database alone decides; a hint only shortens the wait.

News of a queue goes to as many idle worker sessions as there are messages. A topic, ``q:NAME`` for a
queue or ``v:NAME`` for a transient queue, goes to every session that listens. A publisher announces after
its commit. A notified session claims, or passes its notification on. If all hints are lost, a message
waits until the next safety poll.

    session                     Redis, or this process          publisher
       | register_idle(queues)  ----> idle                          |
       | polls once if it missed news                               | commits
       | sleeps                           <----------- announce(news) |
       | <--- notified, and no longer registered                    |
       | claims ... and registers again, or passes the notification on: announce

    base.py       Notifier (sends), Listener (hears), News, Registration, and Wake (what a loop watches)
    registry.py   the notifier that the settings choose, and the one that stays within this process
    redis.py      between processes, through Redis: the sender, the listener, and the scripts of lua/
    postgresql.py between processes, through PostgreSQL: the sender, the listener, and its connection
    waiters.py    wakes what waits for results in this process: one listener for all
    gathering.py  gathers hints that would find no idle session, and sends them as one
"""
