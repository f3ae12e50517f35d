"""What is kept for the whole process: what it holds, what a forked child does with it, and how a test resets it.

A test compares this list with the code. Every fork hook of the package is registered by ``at_fork``, most of them
by the objects that need one.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Registers functions to call around a fork.
at_fork = os.register_at_fork


class ModuleVariable(NamedTuple):
    """A variable of a module, or a function with a cache."""

    holds: str
    #: What a forked child does with it.
    in_child: str = "keeps it"
    #: The method that empties it between two tests, blank where tests need none.
    reset: str = ""


KEPT: Final[Mapping[str, ModuleVariable]] = {
    "conf.load": ModuleVariable("the settings, until a test changes them"),
    "conf._added": ModuleVariable("the extensions that apps have added"),
    "conf.extensions": ModuleVariable("the extensions, loaded"),
    "conf.middleware": ModuleVariable("the middleware, made"),
    "outages.ongoing": ModuleVariable("the outages that are not over"),
    "outages.database": ModuleVariable("the outage of each database"),
    "stores.clock.clock": ModuleVariable("what tests add to the clocks"),
    "stores.connections._open": ModuleVariable(
        "the connections of stores, with their locks", "finds them closed, or abandons them"
    ),
    "stores.connections._closed_at_forks": ModuleVariable("the connections to close before a fork"),
    "stores.connections._used_beside": ModuleVariable(
        "the locks of threads with Django's connections", "forgets them"
    ),
    "stores.connections._held": ModuleVariable("the locks that are held during a fork", "releases them"),
    "stores.connections._inherited": ModuleVariable(
        "connections of the parent", "keeps them, so that they are not closed"
    ),
    "stores.connections._this_thread": ModuleVariable("whether a thread works for an event loop"),
    "stores.connections.threads": ModuleVariable("threads that publish for event loops", "makes a new pool"),
    "stores.queue_records._known": ModuleVariable("the rows of queues, for a few seconds", reset="clear"),
    "stores.sql.unique_keys.returning": ModuleVariable("the connections whose last unique key had a row"),
    "stores.sql.settlements._declined_at": ModuleVariable("when sessions have declined messages", reset="clear"),
    "stores.sqlite.database._looking": ModuleVariable("the searches that run in SQLite"),
    "inprocess.memory.broker._brokers": ModuleVariable("the brokers in memory", "refuses to use them"),
    "notifications.registry._local": ModuleVariable("the notifier without a server", "begins anew"),
    "notifications.registry._postgresql": ModuleVariable("the notifiers over PostgreSQL", "begins anew"),
    "notifications.registry._redis": ModuleVariable("the notifiers over Redis", "begins anew"),
    "notifications.registry._imported": ModuleVariable("the notifiers of other packages"),
    "limits.declared._limits": ModuleVariable("the limits by key that the code declares, by queue"),
    "delivery.queues._queues_of_tasks": ModuleVariable("the queues of Django's tasks, and of deaths"),
    "delivery.publisher.async_threads": ModuleVariable("threads that publish from async code", "makes a new pool"),
    "delivery.consumer.handlers._handlers": ModuleVariable("the handlers, by queue"),
    "delivery.consumer.session._live": ModuleVariable("the open sessions", "forgets them: it holds no lease"),
    "delivery.consumer.session._unclosed": ModuleVariable("sessions that could not be closed", "forgets them"),
    "alerts.extension._first_asked": ModuleVariable(
        "since when the leader is asked to look for alerts", "begins anew"
    ),
    "periodic.duty._next_looks": ModuleVariable("when the leader looks for ticks that are due", reset="clear"),
    "periodic.releases._followed": ModuleVariable("the digests of what @periodic declares"),
    "periodic.decorator._declared": ModuleVariable("what @periodic has decorated"),
    "workflows.registry._declared": ModuleVariable("the workflows that the code declares"),
    "admin.retries._discover_once": ModuleVariable("that the admin has looked for the handlers"),
    "diagnosis.doctor.database._question": ModuleVariable("what the doctor asks a database", "asks anew"),
    "diagnosis.state.overview._names": ModuleVariable("the fields of the states"),
    "diagnosis.state.overview._columns": ModuleVariable("the columns of a queue that its state is made of"),
    "diagnosis.state.overview._options": ModuleVariable("options that many queues have alike"),
    "diagnosis.messages.masking._rule": ModuleVariable("the function that the setting MASK names"),
    "management.spark.jobs.JOBS": ModuleVariable("the jobs of mq_spark"),
    "integrations.prometheus.view._registry": ModuleVariable("the registry that the metrics page shows"),
    "integrations.celery.runs._durations": ModuleVariable("how long tasks of this worker run", reset="clear"),
    "integrations.celery.native._attempts": ModuleVariable("the handlers that run"),
    "integrations.celery.publisher._workers": ModuleVariable(
        "the id of this process, if it is a Celery worker", "is none"
    ),
    "integrations.celery.publisher._beside": ModuleVariable(
        "the stores beside sessions", "opens their connections anew"
    ),
    "integrations.celery.failures._kept": ModuleVariable("the store of failed runs", "opens its connection anew"),
    "integrations.celery.internals._pools": ModuleVariable("the pools whose given tasks are kept"),
    "integrations.celery.loop_driver._left": ModuleVariable(
        "event loops that workers have left, with their threads"
    ),
    "results.connections._kept": ModuleVariable(
        "the stores over which a worker writes results", "opens their connections anew"
    ),
    "integrations.celery.transient_queues._living": ModuleVariable(
        "the transient queues of this process, by connection"
    ),
    "integrations.celery.transport._noted": ModuleVariable("what was logged once"),
}
#: Caches of functions whose answers are the same in every process.
PURE: Final = frozenset(
    {
        "delivery.codecs.codec_of",
        "engine.decisions.declared._plain",
        "engine.decisions.declared.declared_in",
        "engine.decisions.fairness.fairness_of",
        "engine.decisions.routing._topic",
        "engine.decisions.selection._known",
        "integrations.tasks.envelope._with_rules",
        "integrations.tasks.options._rules",
        "integrations.tasks.running._worker_of",
        "notifications.redis.script",
        "workflows.graphs.graph_in",
        "stores.postgresql.database._names_in",
        "stores.postgresql.database._numbered",
        "stores.postgresql.database._with_literal",
        "stores.registry._kind",
        "stores.sql.conditions.condition_of",
        "stores.sql.database._defined",
        "stores.sql.database._written",
        "stores.sql.database.option_texts",
        "stores.sql.database.statement",
        "stores.sqlite.database.as_driver_reads",
        "typed.models._adapter",
    }
)


def reset() -> None:
    """Empty what must not go from one test to the next."""
    for place, kept in KEPT.items():
        module, _, name = place.rpartition(".")
        if kept.reset and (loaded := sys.modules.get(f"{__package__}.{module}")) is not None:
            getattr(getattr(loaded, name), kept.reset)()
