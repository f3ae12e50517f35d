"""What should be reached, by kind of database: a ratio to the raw limit, or a greatest value."""

from __future__ import annotations

from types import MappingProxyType

#: Each measure has one.
ON_POSTGRESQL = MappingProxyType(
    {
        "publish_one": 0.75,
        "publish_many": 0.5,
        "drain_one": 0.6,
        "drain_two": 0.6,
        "pickup_p50": 1.5,
        "pickup_p99": 3.0,
        "claim_10m_ready": 1.15,
        "claim_1m_scheduled": 1.15,
        "claim_after_churn": 1.5,
        "wakeups_per_message": 1.05,
        "claims_per_message": 1.1,
        "idle_statements": 60.0,
        "worker_memory_mib": 20.0,
    }
)
#: One writer at a time, who is never far from the disk: the rest is reported.
ON_SQLITE = MappingProxyType({"publish_one": 0.6, "drain_one": 0.4})
#: All is reported.
ON_MYSQL = MappingProxyType[str, float]({})
