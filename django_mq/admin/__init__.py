"""The operator's door: queues, bindings, messages, workers, history and failures in the Django admin.

Lists read the tables and never touch a body; how deep the queues are is one statement a page.
What an operator does goes through ``steering``, which asks the store and then wakes the
consumers: no page changes a message by itself. Each act has a permission of its own, names
what it left alone and why, and leaves a log entry.

A site with an ``AdminSite`` of its own calls ``register(site)``.
"""

from django.contrib import admin

from django_mq.admin.registration import register

__all__ = ["register"]

register(admin.site)
