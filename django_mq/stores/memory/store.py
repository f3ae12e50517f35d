"""The memory store: every duty, over one broker."""

from __future__ import annotations

from django_mq.stores.features import Features
from django_mq.stores.memory.appending import Appending
from django_mq.stores.memory.looking import Looking
from django_mq.stores.memory.settling import Settling
from django_mq.stores.memory.upkeep import Upkeep
from django_mq.stores.memory.volatile import Volatile


class MemoryStore(Appending, Settling, Upkeep, Looking, Volatile):
    """A handle of the broker of its name; any thread may use it."""

    # Nobody outside the process commits here, and hints reach everybody inside it.
    features = Features(durable=False, concurrent_claims=True, serves_consumers=True)
