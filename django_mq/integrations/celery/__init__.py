"""Celery workers as consumers: the Kombu transport and the worker step.

    url.py        the broker URL and its scheme; known.py is the entry point that registers it with Kombu
    checks.py     the checks of broker URLs and result backends; results.py is what Celery finds as such a backend
    transport.py  the Kombu transport, on the worker's event loop
    channel.py    declaring, publishing, consuming
    message.py    Kombu's message to a row and back
    publisher.py  what a transport writes, and over which connection
    exchanges.py  what an exchange is, and which queues a message reaches
    transient_queues.py  remote control, its replies, and events
    qos.py        what a channel has and has not settled
    pools.py      when a pool may begin a task, and what its children were given
    step.py       the worker step; native.py runs native handlers as Celery's work
    failures.py   failed tasks and their retries; revocation.py the messages of revoked tasks

Importing this package imports nothing of Celery.
"""
