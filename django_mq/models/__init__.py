"""The tables. Fields, indexes named by the query they serve, and no queue logic.

Rows are written by the hand-written SQL of ``stores``; the admin and the commands
read them through these models. ``tests/architecture`` compares the column names in
the SQL files with the fields here.
"""

from django_mq.models.history import Attempt, History
from django_mq.models.message import Message
from django_mq.models.operation import Operation
from django_mq.models.ownership import Ownership, Turn
from django_mq.models.pipeline import ArchiveBatch, BulkJob, BulkPart, InsightCause, InsightHour
from django_mq.models.queue import Binding, DuplicateId, Queue
from django_mq.models.rollup import Rollup
from django_mq.models.session import Consumer, WorkerSession
from django_mq.models.task_result import TaskResult
from django_mq.models.volatile import VolatileBinding, VolatileMessage

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
