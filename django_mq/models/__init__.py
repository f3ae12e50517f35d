"""The tables: fields, and indexes named by the query that they serve. No queue logic.

The SQL of ``stores`` writes the rows; the admin and the commands
read them through these models. ``tests/architecture`` compares the column names in
the SQL files with the fields here.
"""

from django_mq.models.attention import AcknowledgedLetter, SnoozedAlert
from django_mq.models.failures import (
    Deploy,
    FailureGroup,
    FailureTally,
    GroupedFailure,
    StagedMessage,
    StagedRedrive,
)
from django_mq.models.history import Attempt, History, Rollup, TaskResult
from django_mq.models.limit import LimitException, LimitHold, LimitKey, LimitSlot
from django_mq.models.message import Message, VolatileBinding, VolatileMessage
from django_mq.models.operation import Operation
from django_mq.models.pipeline import ArchiveBatch, BulkJob, BulkPart, InsightCause, InsightDay, InsightHour
from django_mq.models.queue import Binding, DuplicateId, Exchange, ExchangeBinding, FairCounter, Queue
from django_mq.models.run import BegunTask
from django_mq.models.search import SearchKey
from django_mq.models.session import ClaimLock, Consumer, DeclinedMessage, Ownership, StopRequest, WorkerSession
from django_mq.models.tenants import TenantStep
from django_mq.models.unique_key import UniqueKey

__all__ = [
    "AcknowledgedLetter",
    "ArchiveBatch",
    "Attempt",
    "BegunTask",
    "Binding",
    "BulkJob",
    "BulkPart",
    "ClaimLock",
    "Consumer",
    "DeclinedMessage",
    "Deploy",
    "DuplicateId",
    "Exchange",
    "ExchangeBinding",
    "FailureGroup",
    "FailureTally",
    "FairCounter",
    "GroupedFailure",
    "History",
    "InsightCause",
    "InsightDay",
    "InsightHour",
    "LimitException",
    "LimitHold",
    "LimitKey",
    "LimitSlot",
    "Message",
    "Operation",
    "Ownership",
    "Queue",
    "Rollup",
    "SearchKey",
    "SnoozedAlert",
    "StagedMessage",
    "StagedRedrive",
    "StopRequest",
    "TaskResult",
    "TenantStep",
    "UniqueKey",
    "VolatileBinding",
    "VolatileMessage",
    "WorkerSession",
]
