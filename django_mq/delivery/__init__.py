"""The runtime of one process. The files are the steps, in the order a message meets them.

    queues.py      queues come into being, pause and resume
    codecs.py      body to bytes and back
    publishing.py  check, encode, append in the caller's transaction
    hinting.py     the hint that waits for the commit
    runtime.py     what mq_worker and Celery's transport drive: when to claim, and how much; how long to wait
    session.py     this worker's lease on everything it claims; heartbeat.py renews it
    sidecar.py     a second process that renews it when the heartbeat cannot; sidecar_process.py is that process
    handlers.py    the @consumer registry
    prefetch.py    what is claimed waits in order, within its handler's credit
    pool.py        threads
    executing.py   one attempt, as a column of named steps
    settling.py    outcomes gathered, written with the next claim
    maintenance.py promote, reap, expire, trim, prune; go on with stalled operations of the admin
    worker.py      puts the services of mq_worker together

Start order: session, heartbeat, listener, fetcher, pool. Stop order is the reverse of use:
first no more claims, then running handlers end, then the last settlements are written,
then the session is closed, which gives back whatever was never started.
"""
