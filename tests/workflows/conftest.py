"""Queues of steps, and workflows that are forgotten afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_mq.api import Workflow, consumer
from django_mq.delivery.consumer.handlers import forget, registered
from django_mq.delivery.consumer.worker import Worker
from django_mq.stores.registry import shared_store
from django_mq.testing import QueueTester
from django_mq.workflows import registry
from django_mq.workflows.models import StepRun, WorkflowRun
from tests.stores.builders import declare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID


class Site:
    """A site with a few queues, whose handlers a test replaces."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.handlers: dict[str, Any] = {}
        self._names: list[str] = []
        #: The queues of the messages that were handled, in order, with their bodies.
        self.handled: list[tuple[str, Any]] = []

    def queue(self, name: str, handle: Callable[[Any], Any] | None = None, **options: Any) -> str:
        """Make a queue whose handler notes its messages, and returns what ``handle`` does."""
        if name not in self.handlers:
            declare(shared_store(self.alias), name)

            @consumer(name, max_attempts=1, **options)
            def call(message: Any) -> Any:
                self.handled.append((name, message.body))
                return self.handlers[name](message)

        self.handlers[name] = handle or (lambda message: message.body)
        return name

    def workflow(self, name: str) -> Workflow:
        self._names.append(name)
        return Workflow(name)

    def work(self) -> None:
        """Run what is ready until nothing is."""
        with QueueTester(using=self.alias) as mq:
            mq.drain(list(self.handlers), raise_errors=False)

    def work_in_threads(self) -> None:
        """Do the same in a worker, over its own connection."""
        chosen = [handler for queue in self.handlers for handler in registered(queue)]
        Worker(chosen, threads=2, using=self.alias).run(until_empty=True)

    def state(self, id_: UUID) -> str:
        return WorkflowRun.objects.using(self.alias).get(pk=id_).state

    def run(self, id_: UUID) -> WorkflowRun:
        return WorkflowRun.objects.using(self.alias).get(pk=id_)

    def steps(self, id_: UUID) -> dict[str, str]:
        rows = StepRun.objects.using(self.alias).filter(run=id_)
        return {str(row): row.state for row in rows}

    def close(self) -> None:
        for queue in self.handlers:
            forget(queue)
        for name in self._names:
            registry.forget(name)


@pytest.fixture
def site(committed_database: str) -> Iterator[Site]:
    found = Site(committed_database)
    yield found
    found.close()
