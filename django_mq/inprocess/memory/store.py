"""The store in memory: its parts, and what each of them needs."""

from __future__ import annotations

from django_mq.inprocess.memory.broker import Transaction, broker_named
from django_mq.inprocess.memory.browser import Browser
from django_mq.inprocess.memory.claims import Claims
from django_mq.inprocess.memory.connection import MemoryConnection
from django_mq.inprocess.memory.dead_letters import DeadLetters
from django_mq.inprocess.memory.deletions import Deletions
from django_mq.inprocess.memory.exchanges import Exchanges
from django_mq.inprocess.memory.maintenance import Maintenance, Retention
from django_mq.inprocess.memory.operations import Operations
from django_mq.inprocess.memory.parking import Parking
from django_mq.inprocess.memory.publications import Admission, Publications
from django_mq.inprocess.memory.queues import Queues
from django_mq.inprocess.memory.rates import Rates
from django_mq.inprocess.memory.sessions import Sessions
from django_mq.inprocess.memory.settlements import Settlements
from django_mq.inprocess.memory.unique_keys import UniqueKeys
from django_mq.inprocess.memory.volatile import VolatileMessages
from django_mq.stores.base import Features
from django_mq.stores.subjects.database import Server


class MemoryStore:
    """A store over the broker of its name; any thread may use it."""

    # No other process commits here, and hints reach every thread of this one.
    features = Features(durable=False, serves_consumers=True)

    def __init__(self, name: str, *, private: bool = False) -> None:
        self.alias = name
        self.broker = broker = broker_named(name)
        broker.store = self
        self.dead_letters = sender = DeadLetters(broker)
        transaction = Transaction() if private else broker.transaction
        self.database = MemoryConnection(broker, transaction, sender)
        self.server = Server()
        self.queues = Queues(broker, sender)
        self.deletions = Deletions(broker, sender)
        self.exchanges = Exchanges(broker, sender)
        self.publications = Publications(broker, sender, transaction)
        self.operations = Operations(broker, sender)
        self.unique_keys = UniqueKeys(broker, sender, transaction, self.operations)
        self.admission = Admission(broker, sender, self.publications, self.unique_keys)
        self.sessions = Sessions(broker, sender, self.deletions)
        self.settlements = Settlements(broker, sender, transaction)
        self.parking = Parking(broker, sender)
        self.claims = Claims(broker, sender, self.settlements, self.parking)
        self.rates = Rates(broker, sender)
        self.browser = Browser(broker, sender)
        self.maintenance = Maintenance(broker, sender, self.parking)
        self.retention = Retention(broker, sender)
        self.volatile = VolatileMessages(broker, sender)

    def close(self) -> None:
        """Do nothing: there is no connection to close."""
