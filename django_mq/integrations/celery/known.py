"""The entry point by which any program with Kombu learns the scheme: Kombu imports it with its serializers.

Kombu has no entry points for transports. Nothing heavy may be imported here: every program that uses Kombu
where this package is installed runs this module.
"""

from __future__ import annotations

from django_mq.integrations.celery.url import register

register()

#: What the entry point has to return: a serializer that neither writes nor reads anything.
SERIALIZER = (None, None, "application/x-django-mq")
