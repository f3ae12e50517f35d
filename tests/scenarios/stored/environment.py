"""A store as the environment of scenarios."""

from __future__ import annotations

from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from django.apps import apps
from django.db import connections
from django.db.models import ForeignKey

from django_mq.inprocess.memory.broker import empty_brokers
from tests.scenarios.environment import Environment
from tests.scenarios.stored.broker import StoredBroker
from tests.scenarios.stored.consumer import StoredConsumer, StoredTarget
from tests.scenarios.stored.site import Site

if TYPE_CHECKING:
    from django.db.models import Model

    from django_mq.stores.base import Store


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
    ours = set(apps.get_app_config("django_mq").get_models())
    order: TopologicalSorter[type[Model]] = TopologicalSorter(dict.fromkeys(ours, ()))
    for model in ours:
        keys = [each for each in model._meta.local_concrete_fields if isinstance(each, ForeignKey)]
        # MariaDB checks each row that goes, not the statement.
        if loose := {key.name: None for key in keys if key.null}:
            model._base_manager.using(store.alias).update(**loose)
        for key in keys:
            if not key.null and key.related_model in ours:
                order.add(key.related_model, model)
    for model in order.static_order():
        model._base_manager.using(store.alias).all()._raw_delete(store.alias)
