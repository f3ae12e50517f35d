"""Celery workers as consumers: the Kombu transport and the worker step.

    url.py        the broker URL and its scheme; known.py is the entry point that registers it with Kombu
    checks.py     the checks of broker URLs and result backends
    result_backend.py  results and chords; results.py is what Celery finds as such a backend
    transport.py  the Kombu transport and its channel, which put the parts of one connection together
    message.py    Kombu's message to a row and back
    publisher.py  what a transport writes, messages and declarations, and over which connection
    transient_queues.py  remote control, its replies, and events
    deliveries.py    what a transport consumes, and how claimed messages reach its consumers
    credit.py     how much the consumers may have, and what a channel has and has not settled
    loop_driver.py   when a transport works: on the worker's event loop, or blocking
    step.py       the worker step; native.py runs native handlers as Celery's work
    internals.py  the private names of Celery, Kombu and billiard
    failures.py   failed tasks and their retries
    rates.py      rate limits of tasks, over all workers; revocation.py the messages of revoked tasks

Importing this package imports nothing of Celery.
"""
