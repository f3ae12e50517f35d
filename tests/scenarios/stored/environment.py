"""A store as the environment of scenarios."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import apps
from django.db import connections

from django_mq.inprocess.memory.broker import empty_brokers
from django_mq.models import Queue
from tests.scenarios.environment import Environment
from tests.scenarios.stored.broker import StoredBroker
from tests.scenarios.stored.consumer import StoredConsumer, StoredTarget
from tests.scenarios.stored.site import Site

if TYPE_CHECKING:
    from django_mq.stores.base import Store

#: Models that rows of others refer to: they go after those, in this order.
REFERRED_TO = ("Act", "StagedRedrive", "FailureGroup", "Queue", "WorkerSession")


def stored_environment(store: Store) -> Environment:
    """The environment of a store; each scenario finds it empty. No other process may use the tables."""

    brokers: list[StoredBroker] = []

    def broker(scale: float) -> StoredBroker:
        while brokers:
            brokers.pop().abandon()
        empty(store)
        site = Site(store, scale)
        site.move_clock(0.0)
        brokers.append(StoredBroker(site))
        return brokers[0]

    return Environment(broker, StoredTarget, StoredConsumer, kind_of(store))


def kind_of(store: Store) -> str:
    """The kind of a store, as the command names it."""
    return connections[store.alias].vendor if store.features.durable else "memory"


def empty(store: Store) -> None:
    """Forget every queue, message and session."""
    if not store.features.durable:
        empty_brokers()
        return
    # MariaDB checks each row that goes, not the statement.
    Queue.objects.using(store.alias).update(dead_letter_queue=None, expiry_queue=None)
    models = apps.get_app_config("django_mq").get_models()
    last = {name: number for number, name in enumerate(REFERRED_TO, 1)}
    for model in sorted(models, key=lambda each: last.get(each.__name__, 0)):
        model._base_manager.using(store.alias).all()._raw_delete(store.alias)
