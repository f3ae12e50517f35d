"""A workflow, as applications use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django_mq.workflows import registry
from django_mq.workflows.declared import WorkflowDeclaration

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from uuid import UUID


@dataclass(eq=False, repr=False)
class Workflow(WorkflowDeclaration):
    """A graph of steps. Declare it in the module ``workflows`` or ``consumers`` of an app.

    Raises WrongWorkflow for a name that cannot be, or that another workflow has.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        registry.add(self)

    def start(
        self,
        input: Any = None,  # noqa: A002 - what it is
        *,
        key: str | None = None,
        deadline: timedelta | float | datetime | None = None,
        using: str | None = None,
    ) -> UUID:
        """Start a run in the transaction that is open, and return its id.

        ``key`` is unique among the runs of this workflow that have not ended. A run that has not ended at its
        ``deadline``, a time, a timedelta or seconds, is stopped, and has failed.

        Raises WrongWorkflow, UnknownQueue, WorkflowRuns, InvalidMessage and BodyNotSerialisable before anything is
        written, and UnsupportedRule for queues in memory.
        """
        from django_mq.workflows.starter import start  # noqa: PLC0415 - models; an app may not be installed

        return start(self, input, key=key, deadline=deadline, using=using)
