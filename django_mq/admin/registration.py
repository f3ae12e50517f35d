"""Which page shows which table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.admin.attempts import AttemptAdmin
from django_mq.admin.bindings import BindingAdmin
from django_mq.admin.consumers import ConsumerAdmin
from django_mq.admin.history import HistoryAdmin
from django_mq.admin.insights import InsightAdmin
from django_mq.admin.messages import MessageAdmin
from django_mq.admin.operations import OperationAdmin
from django_mq.admin.pipeline import ArchiveBatchAdmin, BulkJobAdmin
from django_mq.admin.queues import QueueAdmin
from django_mq.admin.task_results import TaskResultAdmin
from django_mq.admin.workers import WorkerSessionAdmin
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

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite


def register(site: AdminSite) -> None:
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
