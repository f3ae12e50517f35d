"""Celery workers as consumers: the scheme, the Kombu transport, the worker step.

    url.py        the broker URL, and its scheme, known to Kombu without importing the transport
    known.py      the entry point by which Kombu learns it in any program
    scheme.py     the entry point by which the Celery command line learns it
    publisher.py  what a transport writes, and over which connection
    message.py    Kombu's message to a row and back
    transport.py  the Kombu transport, on the worker's event loop
    channel.py    declaring, publishing, consuming
    qos.py        what a channel was given and has not settled, and when a pool may begin it
    transient_queues.py  remote control, its replies, and events
    step.py       the worker step; native.py runs native handlers as Celery's work
    failures.py   why tasks failed, and their retries; revoking.py what was revoked

Importing this package imports nothing of Celery.
"""
