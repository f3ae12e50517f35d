"""The operator's door: queues, bindings, messages, workers, history and failures in the Django admin.

Lists read the tables and never touch a body; how deep the queues are is one statement a page.
What an operator does goes through the store, which then wakes the
consumers: no page changes a message by itself. Each action has a permission of its own, names
what it left alone and why, and leaves a log entry.

A site with an ``AdminSite`` of its own calls ``register(site)``.
"""

from __future__ import annotations

from django.contrib import admin

from django_mq.admin.bindings import BindingAdmin
from django_mq.admin.history import AttemptAdmin, HistoryAdmin
from django_mq.admin.insights import InsightAdmin
from django_mq.admin.messages import MessageAdmin
from django_mq.admin.operations import OperationAdmin
from django_mq.admin.pipeline import ArchiveBatchAdmin, BulkJobAdmin
from django_mq.admin.queues import QueueAdmin
from django_mq.admin.task_results import TaskResultAdmin
from django_mq.admin.workers import ConsumerAdmin, WorkerSessionAdmin
from django_mq.models import (
    ArchiveBatch,
    Attempt,
    Binding,
    BulkJob,
    Consumer,
    History,
    InsightHour,
    Message,
    Operation,
    Queue,
    TaskResult,
    WorkerSession,
)


def register(site: admin.AdminSite) -> None:
    """Put every page of django_mq on the site."""
    site.register(Queue, QueueAdmin)
    site.register(Binding, BindingAdmin)
    site.register(Message, MessageAdmin)
    site.register(WorkerSession, WorkerSessionAdmin)
    site.register(Consumer, ConsumerAdmin)
    site.register(History, HistoryAdmin)
    site.register(Attempt, AttemptAdmin)
    site.register(TaskResult, TaskResultAdmin)
    site.register(Operation, OperationAdmin)
    site.register(InsightHour, InsightAdmin)
    site.register(ArchiveBatch, ArchiveBatchAdmin)
    site.register(BulkJob, BulkJobAdmin)


register(admin.site)
