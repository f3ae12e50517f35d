"""Celery workers as consumers: the scheme, the Kombu transport, the worker step.

    alias.py      the django-mq:// scheme, known to Kombu without importing the transport
    known.py      the entry point by which Kombu learns it in any program
    scheme.py     the entry point by which the Celery command line learns it
    address.py    the broker URL
    transport.py  the Kombu transport, on the worker's event loop
    channel.py    declaring, publishing, consuming
    ...

Importing this package imports nothing of Celery.
"""
