"""Hints: wake-ups that may be lost. The database is the truth, a hint only shortens the wait.

News of a queue goes to as many idle worker sessions as there are messages. A topic, ``q:NAME`` for a
queue or ``v:NAME`` for a volatile one, goes to every session that listens. A publisher announces after
its commit. A session that is notified claims, or hands its notification on. If every hint is lost, a
message waits for the next safety poll at most.

    session                     Redis, or this process          publisher
       | register_idle(queues)  ----> idle                          |
       | looks once if news was missed                              | commits
       | sleeps                           <----------- announce(news) |
       | <--- notification to so many: no longer registered         |
       | claims ... and registers again, or hands the notification on: announce

    base.py       Notifier (sends), Listener (hears), News, Registration, and Wake (what a loop watches)
    local.py      within this process
    redis.py      between processes, through Redis: the sender, the listener, and the scripts of lua/
    postgresql.py between processes, through PostgreSQL: the sender, the listener, and its connection
    gathering.py  what need not be sent one by one, and not at all while the server is away
"""
