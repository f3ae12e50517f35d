"""From the attributes of a queue to its rules."""

from functools import partial
from typing import TYPE_CHECKING, Final

from django_mq.engine.decisions.expiry import Lifetime
from django_mq.engine.decisions.limits import DEFAULT_RESUME_PERCENT, Limits, Overflow
from django_mq.engine.decisions.places import MOST_LEVELS
from django_mq.inprocess.consumers.admission import Exclusivity
from django_mq.inprocess.consumers.groups import AssignedGroups, SharedGroups
from django_mq.inprocess.rules import Rules
from tests.scenarios.errors import MalformedScenarioError
from tests.scenarios.fields import Fields
from tests.scenarios.qpid.clock import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.inprocess.consumers.groups import Groups

KINDS: Final = {"standard": "fifo", "priority": "priority", "sorted": "sorted", "lvq": "last_value"}
POLICIES: Final = {
    "none": Overflow.NONE,
    "ring": Overflow.RING,
    "reject": Overflow.REJECT,
    "producer_flow_control": Overflow.FLOW,
}
OWNERS: Final = {word: Exclusivity(word) for word in ("none", "link", "connection", "session")}
EXPIRIES: Final = {"delete": False, "route_to_alternate": True}
GROUPS: Final = {"standard": False, "shared": True}

#: The headers that Qpid uses if a queue names none, and the group of messages without one.
GROUP_KEY: Final = "JMSXGroupID"
LAST_VALUE_KEY: Final = "qpid.LVQ_key"
NO_GROUP: Final = "qpid.no-group"


def read_rules(fields: Fields) -> Rules:
    """The rules of one queue, its name apart."""
    kind = fields.choice("type", KINDS, "fifo")
    alternate = fields.want("alternate", str, None)
    expired_to_alternate = fields.choice("expiry", EXPIRIES, False)
    rules = Rules(
        kind=kind,
        key=_key(fields, kind),
        levels=_levels(fields, kind),
        hold=fields.want("hold", bool, False),
        max_attempts=fields.want("max_delivery", int, 0) or None,
        dead_letter_queue=alternate,
        keep_dead=False,
        expiry_queue=alternate if expired_to_alternate else None,
        drops_expiry=False,
        lifetime=Lifetime(least=_bound(fields, "min_ttl"), most=_bound(fields, "max_ttl")),
        limits=Limits(_limit(fields, "max_messages"), _limit(fields, "max_bytes")),
        overflow=fields.choice("overflow", POLICIES, Overflow.NONE),
        resume_percent=fields.want("resume_percent", float, DEFAULT_RESUME_PERCENT),
        groups=_groups(fields),
        exclusivity=fields.choice("exclusive", OWNERS, Exclusivity.NONE),
        max_live=fields.want("max_live", int, 0) or None,
        nondestructive=fields.want("nondestructive", bool, False),
        auto_delete=fields.want("auto_delete", bool, False),
    )
    fields.finish()
    return rules


def _key(fields: Fields, kind: str) -> str | None:
    sort_key = fields.want("sort_key", str, None)
    last_value_key = fields.want("lvq_key", str, LAST_VALUE_KEY)
    if kind == "sorted":
        return sort_key
    return last_value_key if kind == "last_value" else None


def _levels(fields: Fields, kind: str) -> int:
    # More levels than priorities change nothing: each priority has a level of its own already.
    levels = fields.want("priorities", int, MOST_LEVELS)
    return min(levels, MOST_LEVELS) if kind == "priority" else 1


def _bound(fields: Fields, name: str) -> float | None:
    """A bound on the time to live, in seconds; 0 is off."""
    milliseconds = fields.want(name, float, 0)
    return until(milliseconds) if milliseconds > 0 else None


def _limit(fields: Fields, name: str) -> int | None:
    limit = fields.want(name, int, -1)
    return None if limit < 0 else limit


def _groups(fields: Fields) -> "Callable[..., Groups] | None":
    shared = fields.choice("group", GROUPS, None)
    key = fields.want("group_key", str, GROUP_KEY)
    default = fields.want("default_group", str, NO_GROUP)
    if shared is None:
        return None
    return partial(SharedGroups, key, default) if shared else partial(AssignedGroups, key)


def read_queues(setup: Fields) -> dict[str, Rules]:
    """The rules of every queue by its name, in order; raises MalformedScenarioError if there is none."""
    queues = {}
    for position, attributes in enumerate(setup.need("queues", list)):
        fields = Fields(attributes, f"queue {position}")
        name = fields.need("name", str)
        queues[name] = read_rules(fields)
    setup.finish()
    if not queues:
        raise MalformedScenarioError("the setup has no queue")
    return queues
