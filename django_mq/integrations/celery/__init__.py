"""Celery workers as consumers: the scheme, the Kombu transport, the worker step.

    alias.py      the django-mq:// scheme, known to Kombu without importing the transport
    known.py      the entry point by which Kombu learns it in any program
    scheme.py     the entry point by which the Celery command line learns it
    address.py    the broker URL
    publisher.py  the producer's side; retries.py publishes a task's own retry
    message.py    Kombu's message to a row and back
    transport.py  the Kombu transport, on the worker's event loop
    channel.py    declaring, publishing, consuming; declarations.py writes queues and bindings
    qos.py        what a channel was given and has not settled
    transient_queues.py  remote control, its replies, and events
    step.py       the worker step; native.py runs native handlers as Celery's work
    pools.py      what a pool is given, and when it may begin
    failures.py   why tasks failed; revoking.py what was revoked


Importing this package imports nothing of Celery.
"""
