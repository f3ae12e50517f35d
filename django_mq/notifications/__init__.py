"""Hints: wake-ups that may be lost. The database is the truth, a hint only shortens the wait.

News of a queue goes to as many interested worker sessions as there are messages; a topic,
``q:NAME`` for a queue or ``v:NAME`` for a volatile one, to everybody who listens. A
publisher announces after its commit; a session that is told claims, or hands its notice
on. Losing every hint costs at most one safety poll.

    session                     Redis, or this process          publisher
       | interest(queues)  ---------> interested                    |
       | looks once if news was missed                              | commits
       | sleeps                           <----------- announce(news) |
       | <--- notice to so many: interested no more                 |
       | claims ... and sleeps again, or hands the notice on: announce

    base.py       Notifier (sends), Listener (hears), News, Standing, and Wake (what a loop watches)
    local.py      within this process
    redis.py      between processes, through Redis: the sender, the listener, and the scripts of lua/
    gathering.py  what need not be sent one by one, and not at all while the server is away
"""
