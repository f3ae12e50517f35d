"""The Django admin of django_mq.

Lists read the tables, never a body. Actions go through the store, which wakes the consumers. Each action has a
permission, says which rows it left alone and why, and leaves a log entry.

menu.py       the pages in the order of use
table.py      the base class of all pages
live.py       refreshes of pages, by what has changed
paginator.py  pages over tables of millions of rows
filters.py    the filters of the lists
columns.py    values that several pages show
addresses.py  the address of a message
actions.py    the base class of pages with actions
forms.py      what an action asks before
panels.py     the panels of extensions
retries.py    what handlers say of failures
report.py     the sentence at the end of an action, and log entries
queues/       queues and bindings
limits/       what operators allow single keys of limits
messages/     messages, history, failed attempts, task results
alerts/       what needed a look, and which targets were told
operations/   actions on very many messages
bridges/      bridges to other brokers, and receivers
acts/         what operators did, and how to put it back
failures/     failed attempts in groups
batches/      messages that are counted together
durable/      events of durable handlers
workers/      worker sessions and consumers
overview/     the overview, and other pages on all queues
periodic/     periodic messages
workflows/    workflows and their graphs
results/      results of Celery's tasks, chords and saved groups
pipeline/     what the Spark pipeline has written

A site with an ``AdminSite`` of its own calls ``register(site)``.
"""

from __future__ import annotations

from django.contrib import admin

from django_mq.acts.models import Act
from django_mq.admin import menu
from django_mq.admin.acts.admin import ActAdmin
from django_mq.admin.alerts.admin import RecordedAlertAdmin
from django_mq.admin.batches.admin import MessageBatchAdmin
from django_mq.admin.bridges.admin import BridgeLinkAdmin, ReceiverStateAdmin
from django_mq.admin.durable.admin import DurableEventAdmin
from django_mq.admin.failures.admin import FailureGroupAdmin
from django_mq.admin.failures.staged import StagedRedriveAdmin
from django_mq.admin.limits.admin import LimitExceptionAdmin
from django_mq.admin.messages.admin import MessageAdmin
from django_mq.admin.messages.history import AttemptAdmin, HistoryAdmin
from django_mq.admin.messages.task_results import TaskResultAdmin
from django_mq.admin.messages.unique_keys import UniqueKeyAdmin
from django_mq.admin.operations.admin import OperationAdmin
from django_mq.admin.overview.snoozed import SnoozedAlertAdmin
from django_mq.admin.periodic.admin import PeriodicMessageAdmin
from django_mq.admin.pipeline.admin import ArchiveBatchAdmin, BulkJobAdmin
from django_mq.admin.pipeline.insights import InsightAdmin
from django_mq.admin.queues.admin import QueueAdmin
from django_mq.admin.queues.bindings import BindingAdmin
from django_mq.admin.results.admin import StoredResultAdmin
from django_mq.admin.results.groups import ChordAdmin, ResultGroupAdmin
from django_mq.admin.workers.admin import ConsumerAdmin, WorkerSessionAdmin
from django_mq.admin.workflows.admin import WorkflowRunAdmin
from django_mq.alerts.models import RecordedAlert
from django_mq.batches.models import MessageBatch
from django_mq.bridges.models import BridgeLink
from django_mq.bridges.receiver_state import ReceiverState
from django_mq.durable.models import DurableEvent
from django_mq.models import (
    ArchiveBatch,
    Attempt,
    Binding,
    BulkJob,
    Consumer,
    FailureGroup,
    History,
    InsightHour,
    LimitException,
    Message,
    Operation,
    Queue,
    SnoozedAlert,
    StagedRedrive,
    TaskResult,
    UniqueKey,
    WorkerSession,
)
from django_mq.periodic.models import PeriodicMessage
from django_mq.results.models import Chord, ResultGroup, StoredResult
from django_mq.workflows.models import WorkflowRun


def register(site: admin.AdminSite) -> None:
    """Put every page of django_mq on the site."""
    site.register(Queue, QueueAdmin)
    site.register(Binding, BindingAdmin)
    site.register(LimitException, LimitExceptionAdmin)
    site.register(Message, MessageAdmin)
    site.register(WorkerSession, WorkerSessionAdmin)
    site.register(Consumer, ConsumerAdmin)
    site.register(History, HistoryAdmin)
    site.register(Attempt, AttemptAdmin)
    site.register(FailureGroup, FailureGroupAdmin)
    site.register(StagedRedrive, StagedRedriveAdmin)
    site.register(SnoozedAlert, SnoozedAlertAdmin)
    site.register(TaskResult, TaskResultAdmin)
    site.register(StoredResult, StoredResultAdmin)
    site.register(Chord, ChordAdmin)
    site.register(ResultGroup, ResultGroupAdmin)
    site.register(UniqueKey, UniqueKeyAdmin)
    site.register(Operation, OperationAdmin)
    site.register(Act, ActAdmin)
    site.register(RecordedAlert, RecordedAlertAdmin)
    site.register(MessageBatch, MessageBatchAdmin)
    site.register(BridgeLink, BridgeLinkAdmin)
    site.register(ReceiverState, ReceiverStateAdmin)
    site.register(DurableEvent, DurableEventAdmin)
    site.register(PeriodicMessage, PeriodicMessageAdmin)
    site.register(WorkflowRun, WorkflowRunAdmin)
    site.register(InsightHour, InsightAdmin)
    site.register(ArchiveBatch, ArchiveBatchAdmin)
    site.register(BulkJob, BulkJobAdmin)
    menu.install(site)


register(admin.site)
