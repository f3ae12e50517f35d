"""The tables. Fields, indexes named by the query they serve, and no queue logic.

Rows are written by the hand-written SQL of ``stores``; the admin and the commands
read them through these models. ``tests/architecture`` compares the column names in
the SQL files with the fields here.
"""

from django_mq.models.history import Attempt, History, Rollup, TaskResult
from django_mq.models.message import Message, VolatileBinding, VolatileMessage
from django_mq.models.operation import Operation
from django_mq.models.pipeline import ArchiveBatch, BulkJob, BulkPart, InsightCause, InsightHour
from django_mq.models.queue import Binding, DuplicateId, Queue
from django_mq.models.session import Consumer, Ownership, Turn, WorkerSession

__all__ = [
    "ArchiveBatch",
    "Attempt",
    "Binding",
    "BulkJob",
    "BulkPart",
    "Consumer",
    "DuplicateId",
    "History",
    "InsightCause",
    "InsightHour",
    "Message",
    "Operation",
    "Ownership",
    "Queue",
    "Rollup",
    "TaskResult",
    "Turn",
    "VolatileBinding",
    "VolatileMessage",
    "WorkerSession",
]
