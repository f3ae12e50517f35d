"""Loaded by Kombu itself, through its entry points for serializers: from then on it knows the scheme.

Kombu has no entry points for transports, but whoever opens a broker has Kombu read those for
serializers. So a program that only says ``Connection("django-mq://")`` or
``Celery(broker="django-mq://")`` imports nothing of ours. Nothing heavy may be imported here:
every program with Kombu in it, and with this package installed, comes by.
"""

from __future__ import annotations

from django_mq.integrations.celery.url import announce

announce()

#: What the entry point has to return: a serializer that neither writes nor reads anything.
SERIALIZER = (None, None, "application/x-django-mq")
