"""Claim, handle and settle messages: the runtime of a worker. In the order a message meets the files:

    handlers.py           the ``@consumer`` registry
    runtime.py            what mq_worker and Celery's transport drive: when to claim and how much
    session.py            the worker's session: claims and settles in its name
    lease.py              the session's state, which two threads share, its row, and the loop that drives it
    heartbeat.py          a thread that renews the lease
    sidecar.py            a second process that renews the lease when the heartbeat cannot run
    sidecar_process.py    the main module of that process
    maintenance.py        runs each duty of maintenance in its time; continues stalled operations of the admin
    duties.py             the duties: promote, reap, expire, trim, prune, and those of extensions
    background.py         a thread for the duties of extensions
    prefetch.py           claimed messages wait in order, within the credit of their handler
    pool.py               threads that run handlers
    attempt.py            one delivery: decode, call the handler, judge
    settlements.py        outcomes, gathered and written with the next claim
    worker.py             the worker of ``mq_worker``, made of the parts above
    garbage_collector.py  let Python's garbage collector run less often in a worker

A worker starts the session, the heartbeat, the listener, the fetcher and the pool, in this order. It stops
them in the reverse order: it claims no more, waits for running handlers, writes the last settlements and closes
the session, which gives back the messages that were never started.
"""
