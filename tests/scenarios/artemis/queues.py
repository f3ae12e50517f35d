"""From the settings of a queue to its rules."""

from functools import cache, partial
from typing import TYPE_CHECKING, Final

from django_mq.engine.decisions.backoff import Backoff
from django_mq.engine.decisions.duplicates import DEFAULT_SIZE
from django_mq.engine.decisions.limits import Limits, Overflow
from django_mq.inprocess.consumers.groups import AssignedGroups, SoleReceiver
from django_mq.inprocess.rules import Rules
from tests.scenarios.errors import MalformedScenarioError

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.inprocess.consumers.groups import Groups
    from tests.scenarios.fields import Fields

#: The headers that the properties of a message with these meanings are kept in.
GROUP: Final = "_AMQ_GROUP_ID"
GROUP_SEQUENCE: Final = "_AMQ_GROUP_SEQUENCE"
LAST_VALUE: Final = "_AMQ_LVQ_NAME"

#: A scenario cannot wait for room, nor run out of disk.
POLICIES: Final = {
    "FAIL": Overflow.REJECT,
    "BLOCK": Overflow.REJECT,
    "DROP": Overflow.DROP,
    "PAGE": Overflow.NONE,
}


def read_durable(fields: "Fields") -> bool:
    """Whether the messages of the queue may outlive a restart."""
    return fields.want("durable", bool, True)


def read_rules(fields: "Fields") -> Rules:
    """The rules of one queue. Raises a ScenarioError for a setting that means nothing."""
    last_value = fields.want("last_value", bool, False)
    overflow, limits, ring = _room(fields)
    rules = Rules(
        kind="last_value" if last_value else "priority",
        key=LAST_VALUE if last_value else None,
        max_attempts=_at_least(fields, "max_delivery_attempts", 1, 10),
        backoff=_backoff(fields),
        dead_letter_queue=fields.want("dead_letter_queue", str, None),
        keep_dead=False,
        expiry_queue=fields.want("expiry_queue", str, None),
        limits=limits,
        overflow=overflow,
        ring_of_ready=ring,
        duplicates=max(0, fields.want("dedup_cache_size", int, DEFAULT_SIZE)),
        groups=_groups(fields),
        max_consumers=_at_least(fields, "max_consumers", 0, -1),
        consumers_before=max(0, fields.want("consumers_before_dispatch", int, 0)),
        nondestructive=fields.want("non_destructive", bool, False),
        purge_on_no_consumers=fields.want("purge_on_no_consumers", bool, False),
    )
    fields.finish()
    return rules


def _at_least(fields: "Fields", name: str, least: int, default: int) -> int | None:
    """A limit; anything below ``least`` is none."""
    limit = fields.want(name, int, default)
    return limit if limit >= least else None


def _backoff(fields: "Fields") -> Backoff | None:
    base = fields.want("redelivery_delay", int, 0)
    multiplier = fields.want("redelivery_multiplier", float, 1.0)
    cap = _at_least(fields, "max_redelivery_delay", 0, -1)
    return Backoff(base, multiplier, cap, ticks_per_second=1) if base > 0 else None


def _room(fields: "Fields") -> tuple[Overflow, Limits, bool]:
    """The policy, its limits, and whether it is a ring."""
    ring = _at_least(fields, "ring_size", 0, -1)
    most = _at_least(fields, "max_messages", 0, -1)
    policy = fields.choice("full_policy", POLICIES, Overflow.NONE)
    if ring is None:
        return policy, Limits(most), False
    if most is not None and policy is not Overflow.NONE:
        raise MalformedScenarioError(f"{fields.where}: a queue has a ring_size or a full_policy, not both")
    return Overflow.RING, Limits(ring), True


def _groups(fields: "Fields") -> "Callable[..., Groups] | None":
    buckets = fields.want("group_buckets", int, -1)
    if fields.want("exclusive", bool, False):
        return SoleReceiver
    return None if buckets == 0 else _assigned(max(buckets, 0) or None)


@cache
def _assigned(buckets: int | None) -> "Callable[..., Groups]":
    # The same one for the same settings: a queue that is given another forgets its owners.
    return partial(AssignedGroups, GROUP, buckets, sequence_key=GROUP_SEQUENCE)
