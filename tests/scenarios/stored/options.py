"""From the engine's rules to the options of a stored queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.engine.decisions.limits import Overflow
from django_mq.engine.options import QueueOptions
from django_mq.inprocess.consumers.admission import Exclusivity
from django_mq.inprocess.consumers.groups import SharedGroups, SoleReceiver
from tests.scenarios.errors import UnfitError

if TYPE_CHECKING:
    from django_mq.engine.decisions.backoff import Backoff
    from django_mq.engine.decisions.expiry import Lifetime
    from django_mq.inprocess.rules import Rules

#: Rules that have no stored form, and their defaults.
ENGINE_ONLY: dict[str, Any] = {
    "max_consumers": None,
    "consumers_before": 0,
    "purge_on_no_consumers": False,
}


def read_options(rules: Rules, scale: float, *, in_memory: bool) -> dict[str, Any]:
    """The options of a queue with these rules. Raises UnfitError for a rule without a stored form."""
    for name, usual in ENGINE_ONLY.items():
        if getattr(rules, name) != usual:
            raise UnfitError(f"a stored queue has no {name}")
    settings = QueueOptions(
        kind="fifo" if rules.kind == "sorted" else rules.kind,
        sort_key=(rules.key or "") if rules.kind == "sorted" else "",
        sort_as_text=rules.kind == "sorted",
        levels=rules.levels,
        due_order="keep_place" if rules.hold or not rules.due_first else "due_first",
        max_attempts=rules.max_attempts or 0,
        dead_letter_queue=rules.dead_letter_queue,
        expiry_queue=rules.expiry_queue,
        last_value_key=(rules.key or "") if rules.kind == "last_value" else "",
        auto_delete=rules.auto_delete,
        nondestructive=rules.nondestructive and in_memory,  # in a database its consumers browse
        dedup_count=rules.duplicates,
        grouping=_grouping(rules),
        exclusive=rules.exclusivity is not Exclusivity.NONE,
        max_consumers=rules.max_live,
        history_days=300_000,  # the clock goes far
        **_lifetime(rules.lifetime, scale),
        **_backoff(rules.backoff, scale),
        **_limits(rules),
    )
    return settings.as_dict()


def _grouping(rules: Rules) -> str:
    groups = rules.groups
    if groups is None:
        return "none"
    if groups is SoleReceiver:
        return "sole"
    made = groups(position=lambda _: 0)
    if isinstance(made, SharedGroups):
        return "shared"
    if getattr(groups, "args", ())[1:2] not in {(), (None,)}:
        raise UnfitError("a stored queue has a group for each name, and no buckets")
    return "assigned"


def _backoff(backoff: Backoff | None, scale: float) -> dict[str, float]:
    if backoff is None:
        return {"backoff_seconds": 0.0}
    return {
        "backoff_seconds": backoff.base_seconds * scale,
        "backoff_multiplier": backoff.multiplier,
        "backoff_cap_seconds": backoff.cap * scale,
        "backoff_jitter": 0.0,
    }


def _limits(rules: Rules) -> dict[str, Any]:
    if rules.overflow is Overflow.NONE:
        return {}
    if 0 in (rules.limits.messages, rules.limits.size_bytes):
        raise UnfitError("a stored queue's limit is at least 1")
    limits = {"max_messages": rules.limits.messages, "max_bytes": rules.limits.size_bytes}
    return limits | {"overflow": rules.overflow.value, "wait_seconds": 0.0}


def _lifetime(lifetime: Lifetime, scale: float) -> dict[str, float | None]:
    if lifetime.endless:
        raise UnfitError("a stored queue forgets no times to live")
    if lifetime.default is not None:
        return {"ttl_seconds": lifetime.default * scale}
    bounds = {"min_ttl_seconds": lifetime.least, "max_ttl_seconds": lifetime.most}
    return {name: None if bound is None else bound * scale for name, bound in bounds.items()}
