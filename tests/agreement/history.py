"""One random history: queues with options, then operations. The same seed gives the same history."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

from django_mq.engine.decisions.dead_letters import DEFAULT_EXCHANGE
from django_mq.engine.options import QueueOptions

if TYPE_CHECKING:
    from collections.abc import Callable

#: The name of an operation, and its arguments: plain values, so that it can be printed and read again.
Operation: TypeAlias = tuple[str, dict[str, Any]]

QUEUES = "abcd"
SLOTS = 3
OPERATIONS = 60
#: Operations happen at whole multiples of this; the end of each wait, half way between.
STEP_SECONDS = 100
#: No history is longer: each time makes statements of its own.
LONGEST_SECONDS = 5000
#: The options that name the queue of dead, or of expired, messages.
TARGETS = ("dead_letter_queue", "expiry_queue")
#: Keys that free parked messages.
PARK_KEYS = ("one", "other")
#: The header of a last-value queue.
KEY = "k"
#: The header by which a queue is sorted.
WEIGHT = "w"

#: What handlers want, the last ones by calculations.
SELECTORS = (
    *(
        "region = 'eu'",
        "region IN ('us', 3)",
        "region",
        "region IS NULL",
        "JMSPriority > 4 AND NOT region = 'eu'",
        "",
    ),
    *("region + 1 > 3", "AMQSize * 2 < 10"),
)

#: A rule by which each further message moves the first one.
DEBOUNCED = {
    "until": "begins",
    "second": "replace",
    "debounce_seconds": 150.0,
    "at_most_seconds": 350.0,
}

#: Values that an option is given instead of its default. Some stand alone, some belong together.
CHOICES: dict[str, list[dict[str, Any]]] = {
    "levels": [{"levels": 3}, {"levels": 1}],
    "kind": [
        {"kind": "fifo"},
        {"kind": "last_value", "last_value_key": KEY},
        {"kind": "fifo", "sort_key": WEIGHT},
    ],
    "due_order": [{"due_order": "keep_place"}],
    "fair": [
        {"fair_by": "region", "due_order": "keep_place"},
        {"fair_by": KEY, "fair_weights": "p=4\nq=0.5", "due_order": "keep_place"},
    ],
    "max_attempts": [{"max_attempts": number} for number in (0, 1, 2)],
    "cycles": [{"max_dead_letter_cycles": 1}, {"max_dead_letter_cycles": None}],
    "limits": [
        {**limit, "overflow": overflow}
        for limit in (
            {"max_messages": 3},
            {"max_messages": 5},
            {"max_bytes": 30},
            {"max_messages": 4, "max_bytes": 25},
        )
        for overflow in ("reject", "ring", "ring", "drop", "flow")
    ],
    "dedup_count": [{"dedup_count": 0}, {"dedup_count": 2}],
    "dedup_seconds": [{"dedup_seconds": 350.0}, {"dedup_seconds": 350.0, "dedup_count": 0}],
    "ttl": [
        {"ttl_seconds": 250.0},
        {"min_ttl_seconds": 250.0},
        {"max_ttl_seconds": 250.0},
        {"min_ttl_seconds": 150.0, "max_ttl_seconds": 450.0},
        {"no_expiry": True},
    ],
    "life": [{"auto_delete": True}, {"expires_seconds": 250.0}],
    "history": [{"history_days": 0.0}, {"history_days": 1750 / 86400}, {"history_body": True}],
    "grouping": [{"grouping": name} for name in ("assigned", "balanced", "shared", "sole")],
    "strict": [{"strict": True}],
    "max_in_flight": [{"max_in_flight": number} for number in (1, 2, 3)],
    "max_consumers": [{"max_consumers": number} for number in (1, 2)],
    "exclusive": [{"exclusive": True}],
    "selectors": [
        {"selectors": "\n".join(SELECTORS[:3])},
        {"selectors": "\n".join(SELECTORS[3:5])},
        {"selectors": "\n".join(SELECTORS[-2:])},
    ],
}
#: The keys of limits, and their rates. What is used is free again a multiple of half a step after an operation: so
#: each later one sees it as free, or is far from that time.
LIMIT_KEYS = ("", "group", "type", "header:region", f"header:{KEY}", "body:tenant")
LIMIT_NAMES = ("first", "second")
RATES = [
    {"amount": amount, "seconds": seconds, "burst": burst}
    for amount, seconds, burst in ((1, 100.0, 1), (1, 200.0, 1), (2, 400.0, 2), (1, 300.0, 3))
]
#: Options that an operator changes while a history lasts.
EDITABLE = (
    *("max_attempts", "limits", "ttl", "history", "grouping", "max_in_flight", "max_consumers", "exclusive"),
    "selectors",
)


@dataclass
class History:
    """Options by queue, and operations."""

    queues: dict[str, dict[str, Any]]
    operations: list[Operation] = field(default_factory=list)
    #: By queue, its limits by key: each is the name of what declares it, and the arguments of that.
    limits: dict[str, list[Operation]] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"    {name!r}: {options!r}," for name, options in self.queues.items()]
        played = [f"    {operation!r}," for operation in self.operations]
        return "\n".join(["queues = {", *lines, "}", "operations = [", *played, "]", f"limits = {self.limits!r}"])


def exchanges_to(queue: str) -> dict[str, str]:
    """Return the exchanges to which the queue is bound, each with the selector of its binding."""
    return {f"to.{queue}": "", f"some.to.{queue}": SELECTORS[0]}


def history_of(seed: str, length: int = OPERATIONS) -> History:
    """Return the history of a seed."""
    return _Author(Random(seed)).history(length)


class _Author:
    """Makes one history up, knowing of it only what has been published, and which sessions should live."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._published = 0
        self._now = 0
        #: Whether this history is about last values in advance.
        self._in_advance = False
        #: Until when the session of each slot lives, None without one.
        self._until: list[float | None] = [1250.0] * SLOTS

    def history(self, length: int) -> History:
        # A dead-letter or expiry queue comes later in the alphabet, so that nothing goes round.
        self._names = QUEUES[: self._random.choice([1, 1, 2, 2, 3, 4])]
        self._in_advance = self._random.random() < 0.2
        history = History({name: self._options(name) for name in self._names})
        if self._random.random() < 0.3:
            history.limits = {name: self._limits() for name in self._names if self._random.random() < 0.7}
        history.operations = [("open", {"slot": slot, "seconds": 1250.0}) for slot in range(SLOTS)]
        # A part of the histories is about few things, so that it comes far with them.
        kinds, weights = zip(*KINDS.items(), strict=True)
        weights = [weight * self._random.choice([0, 1, 1, 2]) if weight < 8 else weight for weight in weights]
        while len(history.operations) < length:
            if self._random.random() < 0.01:
                history.operations += self._poison()
            if self._random.random() < 0.01:
                history.operations += self._unwanted()
            name = self._random.choices(kinds, weights)[0]
            given = getattr(self, f"_{name}")()
            if name in {"claim", "settle"} and self._until[given["slot"]] is None and self._random.random() < 0.85:
                history.operations.append(("open", self._open() | {"slot": given["slot"]}))
                self._lives_on(*history.operations[-1])
            history.operations.append((name, given))
            self._lives_on(name, given)
        return history

    def _lives_on(self, name: str, given: dict[str, Any]) -> None:
        """Note which sessions live after an operation, and for how long, as far as can be told here."""
        if name in {"open", "revive"}:
            self._until[given["slot"]] = self._now + given.get("seconds", 350.0)
        elif name == "renew" and self._until[given["slot"]] is not None:
            self._until[given["slot"]] = self._now + given["seconds"]
        elif name in {"die", "close"}:
            self._until[given["slot"]] = None
        if name in {"die", "reap"}:
            self._until = [until if until is not None and until > self._now else None for until in self._until]

    def _options(self, name: str) -> dict[str, Any]:
        options: dict[str, Any] = {}
        for choices in CHOICES.values():
            if self._random.random() < 0.2:
                options |= self._random.choice(choices)
        later = [other for other in self._names if other > name]
        for target in TARGETS:
            if later and self._random.random() < 0.35:
                options[target] = self._random.choice(later)
        if later and self._random.random() < 0.25:
            options = {name: value for name, value in options.items() if name not in TARGETS}
            target = self._random.choice(later)
            if self._random.random() < 0.3:
                options |= {"dead_letter_exchange": DEFAULT_EXCHANGE, "dead_letter_routing_key": target}
            else:
                options["dead_letter_exchange"] = self._random.choice([*exchanges_to(target)])
        if self._in_advance:
            options |= {"kind": "last_value", "last_value_key": KEY}
        return options if not list(QueueOptions(**options).contradictions()) else self._options(name)

    def _limits(self) -> list[Operation]:
        return [self._limit(name) for name in LIMIT_NAMES[: self._random.choice([1, 1, 2])]]

    def _limit(self, name: str) -> Operation:
        kind = self._random.choice(["throttle", "throttle", "rate_limit", "concurrency", "concurrency"])
        given: dict[str, Any] = {"name": name, "key": self._random.choice(LIMIT_KEYS)}
        if self._random.random() < 0.15:
            given["type"] = "a.type"
        if kind == "concurrency":
            return kind, given | {"at_once": self._random.choice([1, 1, 2])}
        if self._random.random() < 0.3:
            given["weight"] = WEIGHT
        return kind, given | self._random.choice(RATES)

    # Values.

    def _maybe(self, chance: float, make: Callable[[], Any]) -> Any:
        return make() if self._random.random() < chance else None

    def _queue(self) -> str:
        return self._random.choice(self._names)

    def _queues(self) -> list[str]:
        amount = 1 if self._random.random() < 0.6 else self._random.randint(1, len(self._names))
        return self._random.sample(self._names, amount)

    def _slot(self) -> int:
        return self._random.randrange(SLOTS)

    def _pick(self) -> int:
        return self._random.randrange(20)

    def _messages(self) -> list[int]:
        recent = range(max(1, self._published - 12), self._published + 1)
        few = self._random.choice([1, 1, 2, 4, len(recent)])
        return self._random.sample(recent, min(len(recent), few)) if self._published else []

    def _half_way(self) -> float:
        """A time that lies between two operations, from now."""
        return self._random.choice([150.0, 150.0, 250.0, 450.0])

    def _message(self, queue: str) -> dict[str, Any]:
        self._published += 1
        message: dict[str, Any] = {"number": self._published, "queue": queue}
        if self._random.random() < 0.5:
            message["priority"] = self._random.randint(0, 9)
        if self._random.random() < 0.5:
            message["group"] = self._random.choice("xyz")
        if self._random.random() < (0.9 if self._in_advance else 0.4):
            message["key"] = self._random.choice(["p", "q", 7])
        if self._random.random() < 0.7:
            message["weight"] = self._random.choice([-1, 0, 0.5, 2, 2])
        if self._random.random() < 0.6:
            message["region"] = self._random.choice(["eu", "us", 3, True])
        if self._random.random() < 0.3:
            message["tenant"] = self._random.choice(["t", "u"])
        elif self._random.random() < 0.4:
            message["size"] = self._random.choice([0, 1, 5, 9, 12, 40])
        if self._random.random() < (0.5 if self._in_advance else 0.2):
            message[self._random.choice(["delay", "deliver_at"])] = self._half_way()
        if self._random.random() < 0.2:
            message[self._random.choice(["ttl", "expires_at"])] = self._half_way()
        return message | self._ids("delay" in message or "deliver_at" in message)

    def _ids(self, has_time: bool) -> dict[str, Any]:
        ids: dict[str, Any] = {}
        if self._random.random() < 0.25:
            ids["dedup"] = self._random.choice("123456")
        if self._random.random() < 0.2:
            ids["unique"] = self._unique(has_time)
        return ids

    def _unique(self, has_time: bool) -> dict[str, Any]:
        """A rule with one of few keys."""
        choose = self._random.choice
        if not has_time and self._random.random() < 0.2:
            return {"key": choose("12"), **DEBOUNCED}
        until = choose(["begins", "begins", "finished", "window"])
        rule = {"key": choose("12"), "until": until, "second": choose(["raise", "drop", "replace"])}
        rule["replaces"] = choose([["body"], ["time"], ["body", "priority"]])
        return rule | ({"seconds": 350.0} if until == "window" else {})

    # Operations.

    def _publish(self) -> dict[str, Any]:
        amount = 1 if self._random.random() < 0.6 else self._random.randint(2, 6)
        first = self._queue()
        names = [first if self._random.random() < 0.8 else self._queue() for _ in range(amount)]
        messages = [self._message(name) for name in names]
        for message in messages[1:] and messages:
            # In memory, room is counted before a body is replaced, and in a database after.
            if message.get("unique", {}).get("second") == "replace":
                del message["unique"]
        # Ids that come together are forgotten in the order of the ids, in which publishers lock them.
        ids = iter(sorted(message["dedup"] for message in messages if "dedup" in message))
        return {
            "messages": [message | ({"dedup": next(ids)} if "dedup" in message else {}) for message in messages]
        }

    def _publish_batch(self) -> dict[str, Any]:
        message = self._message(self._queue())
        for name in ("dedup", "unique"):
            message.pop(name, None)
        first, self._published = self._published, self._published + 3
        return {"message": message, "numbers": [*range(first, self._published + 1)]}

    def _publish_again(self) -> dict[str, Any]:
        message = self._message(self._queue())
        message["number"] = self._random.randint(max(1, self._published - 12), self._published)
        again = self._random.random() < 0.5
        if again:
            message.pop("unique", None)  # the same message has the same rule, which is not known here
        return {"message": message, "again": again}

    def _open(self) -> dict[str, Any]:
        kind = self._random.choice(["native", "native", "celery"])
        seconds = self._random.choice([350.0, 1250.0])
        return {"slot": self._slot(), "seconds": seconds, "kind": kind, "queues": self._queues()}

    def _renew(self) -> dict[str, Any]:
        consumers = [
            {
                "queue": name,
                "priority": self._random.choice([0, 0, 1, 2]),
                "credit": self._random.choice([0, 1, 2, 3]),
                "used": self._random.choice([0, 0, 1]),
                "selector": self._random.choice(["", "", *SELECTORS]),
            }
            for name in self._queues()
        ]
        state = self._random.choice(["interested", "interested", "interested", "stopping"])
        busy = self._random.choice([None, 0, 1])
        seconds = self._random.choice([350.0, 1250.0])
        queues = self._queues()
        return {
            "slot": self._slot(),
            "seconds": seconds,
            "consumers": consumers,
            "state": state,
            "busy": busy,
            "queues": queues,
        }

    def _die(self) -> dict[str, Any]:
        return {"slot": self._slot()}

    _close = _die

    def _poison(self) -> list[Operation]:
        """Some workers, one after the other, that die of what they claim: seldom enough by chance alone."""
        slot, queue = self._slot(), self._queue()
        kills = self._random.randint(2, 4)
        claim = ("claim", {"slot": slot, "queues": [queue], "credit": 1})
        self._until[slot] = self._now + 1250.0
        return [("open", {"slot": slot, "seconds": 1250.0}), claim] + kills * [
            ("die", {"slot": slot}),
            ("open", {"slot": slot, "seconds": 1250.0}),
            claim,
        ]

    def _unwanted(self) -> list[Operation]:
        """A worker that declines what it claims, for so long that it is dead if no other worker may have it."""
        slot, queue = self._slot(), self._queue()
        bury = ("maintenance", {"duty": "bury_unwanted"})
        self._until[slot] = self._now + 1250.0
        return [
            ("open", {"slot": slot, "seconds": 1250.0, "queues": [queue]}),
            ("claim", {"slot": slot, "queues": [queue], "credit": 3}),
            ("settle", {"slot": slot, "items": [{"pick": pick, "how": "DECLINE"} for pick in range(3)]}),
            bury,
            ("wait", self._wait(4)),
            bury,
        ]

    def _prolong(self) -> dict[str, Any]:
        return {"pick": self._pick(), "seconds": 350.0}

    def _revive(self) -> dict[str, Any]:
        return {"slot": self._slot(), "pick": self._pick()}

    def _subscribe(self) -> dict[str, Any]:
        return {"slot": self._slot(), "queue": self._queue()}

    def _resync(self) -> dict[str, Any]:
        return {"slot": self._slot(), "known": [self._pick() for _ in range(self._random.randint(0, 3))]}

    def _claim(self) -> dict[str, Any]:
        queues = self._queues()
        claim: dict[str, Any] = {
            "slot": self._slot(),
            "queues": queues,
            "credit": self._random.choice([1, 2, 3, 5, 9]),
        }
        if self._random.random() < 0.15:
            claim["slots"] = 0
        elif self._random.random() < 0.4:
            claim["slots"] = self._random.choice([2, 9])
        if self._random.random() < 0.3:
            claim["listed"] = True
        if self._random.random() < 0.2:
            claim["max_bytes"] = self._random.choice([1, 9, 14, 30])
        if self._random.random() < 0.2:
            claim["limits"] = {name: self._random.randint(1, 2) for name in queues}
        if self._random.random() < 0.2:
            bounded = [name for name in queues if self._random.random() < 0.7]
            claim["byte_credit"] = {
                name: [self._random.choice([5, 14, 30]), self._random.choice([0, 3])] for name in bounded
            }
        if self._random.random() < 0.3:
            claim["promoted"] = True
        if self._random.random() < 0.4:
            claim["in_order"] = [name for name in queues if self._random.random() < 0.7]
        if self._random.random() < 0.25:
            claim["wanted"] = self._wanted(queues)
        return claim

    def _wanted(self, queues: list[str]) -> dict[str, list[list[Any]]]:
        """Selectors of handlers, each with a limit."""
        chosen = self._random.sample(queues, self._random.randint(1, len(queues)))
        return {
            name: [
                [self._random.choice(SELECTORS), self._random.choice([0, 1, 2, 9])]
                for _ in range(self._random.randint(1, 3))
            ]
            for name in chosen
        }

    def _settlement(self) -> dict[str, Any]:
        how = self._random.choice(
            [
                *["ACCEPT"] * 2,
                *["RELEASE"] * 3,
                "DEAD",
                "DEAD",
                "EXPIRE",
                "CANCEL",
                "DECLINE",
                "PARK",
                "BEGIN",
                "BEGIN",
            ]
        )
        item: dict[str, Any] = {"pick": self._pick(), "how": how}
        if how in {"RELEASE", "DEAD"}:
            item["counted"] = self._random.random() < 0.6
        if how == "RELEASE" and self._random.random() < 0.4:
            item["delay"] = self._half_way()
        if how == "PARK":
            item |= {"key": self._random.choice(PARK_KEYS), "delay": self._maybe(0.5, self._half_way) or 0.0}
        if how == "DEAD" or self._random.random() < 0.2:
            item["failed"] = self._random.random() < 0.5
        return item

    def _park(self) -> dict[str, Any]:
        seconds = self._maybe(0.5, self._half_way)
        return {"messages": self._messages(), "key": self._random.choice(PARK_KEYS), "seconds": seconds}

    def _free(self) -> dict[str, Any]:
        return {
            "queue": self._queue(),
            "key": self._random.choice(PARK_KEYS),
            "limit": self._random.choice([1, 2, 9]),
        }

    def _end_runs(self) -> dict[str, Any]:
        return {"picks": [self._pick() for _ in range(self._random.choice([1, 1, 2]))]}

    def _hold(self) -> dict[str, Any]:
        """What a handler has learned from its service."""
        return self._limited() | {"seconds": self._half_way()}

    def _allow(self) -> dict[str, Any]:
        """What an operator allows a key."""
        rate = self._maybe(0.5, lambda: self._random.choice(RATES))
        at_once = self._maybe(0.5, lambda: self._random.choice([1, 3]))
        return self._limited() | {"rate": rate, "at_once": at_once}

    def _limited(self) -> dict[str, Any]:
        key = self._random.choice(["", "x", "a.type", "eu", "us", "p", "q", "t"])
        return {"queue": self._queue(), "limit": self._random.choice(LIMIT_NAMES), "key": key}

    def _settle(self) -> dict[str, Any]:
        items = [self._settlement() for _ in range(self._random.choice([1, 1, 2, 4]))]
        if self._random.random() < 0.3:
            items = [{"pick": self._pick(), "how": "ACCEPT"} for _ in items]
        settle: dict[str, Any] = {"slot": self._slot(), "items": items}
        if self._random.random() < 0.4:
            settle["claim"] = {name: value for name, value in self._claim().items() if name != "slot"}
        return settle

    def _settle_late(self) -> dict[str, Any]:
        return {"items": [self._settlement() for _ in range(self._random.choice([1, 2]))]}

    def _give_back(self) -> dict[str, Any]:
        return {"slot": self._slot(), "picks": [self._pick() for _ in range(self._random.randint(1, 3))]}

    def _reap(self) -> dict[str, Any]:
        return {"spare": self._maybe(0.2, self._slot)}

    def _maintenance(self) -> dict[str, Any]:
        duties = ["promote", "expire", "expire", "trim", "prune", "prune", "delete_unused", "limits"]
        return {"duty": self._random.choice([*duties, *["bury_unwanted", "cover"] * 2])}

    def _steer(self) -> dict[str, Any]:
        how = self._random.choice(["cancel", "release_held", "deliver_now", "redrive", "redrive"])
        return {"messages": self._messages(), "how": how}

    def _move(self) -> dict[str, Any]:
        return {"messages": self._messages(), "queue": self._queue()}

    def _prioritise(self) -> dict[str, Any]:
        return {"messages": self._messages(), "priority": self._random.randint(0, 9)}

    def _reschedule(self) -> dict[str, Any]:
        return {"messages": self._messages(), "seconds": self._random.choice([-50.0, 150.0, 250.0])}

    def _purge(self) -> dict[str, Any]:
        return {"queue": self._queue()}

    def _pause(self) -> dict[str, Any]:
        return {
            "queue": self._queue(),
            "paused": self._random.random() < 0.6,
            "seconds": self._maybe(0.4, self._half_way),
        }

    def _edit(self) -> dict[str, Any]:
        if self._random.random() < 0.3:
            return {"queue": self._queue(), "changes": {"closed": self._random.random() < 0.5}}
        name = self._random.choice(EDITABLE)
        changes = dict(self._random.choice(CHOICES[name]))
        if self._random.random() < 0.3:  # back to what it was without a word
            default = QueueOptions()
            changes = {option: getattr(default, option) for option in changes}
        return {"queue": self._queue(), "changes": changes}

    def _free_groups(self) -> dict[str, Any]:
        return {"queue": self._queue(), "group": self._maybe(0.5, lambda: self._random.choice("xyz"))}

    def _declare(self) -> dict[str, Any]:
        return {"queue": self._queue(), "is_use": self._random.random() < 0.5}

    def _delete(self) -> dict[str, Any]:
        return {"queue": self._queue(), "force": self._random.random() < 0.6}

    def _page(self) -> dict[str, Any]:
        states = self._random.sample(["SCHEDULED", "READY", "CLAIMED", "DEAD"], self._random.randint(1, 4))
        return {"queue": self._queue(), "states": states, "limit": self._random.choice([1, 2, 5])}

    def _arrivals(self) -> dict[str, Any]:
        return {"queue": self._queue(), "pick": self._pick(), "limit": self._random.choice([1, 5, 100])}

    def _wait(self, steps: int | None = None) -> dict[str, Any]:
        steps = self._random.choice([1, 1, 2, 4]) if steps is None else steps
        steps = min(steps, (LONGEST_SECONDS - self._now) // STEP_SECONDS)
        self._now += steps * STEP_SECONDS
        return {"steps": steps}


#: Operations and how often each is chosen. A frequent one is in every history.
KINDS = {
    "publish": 20,
    "claim": 20,
    "settle": 16,
    "wait": 8,
    "publish_batch": 1,
    "publish_again": 2,
    "open": 1,
    "renew": 5,
    "die": 4,
    "close": 1,
    "prolong": 1,
    "revive": 2,
    "subscribe": 1,
    "resync": 1,
    "settle_late": 2,
    "give_back": 1,
    "reap": 3,
    "maintenance": 4,
    "steer": 4,
    "move": 3,
    "prioritise": 2,
    "reschedule": 2,
    "purge": 1,
    "pause": 2,
    "edit": 2,
    "free_groups": 1,
    "park": 2,
    "free": 2,
    "end_runs": 4,
    "hold": 1,
    "allow": 1,
    "page": 1,
    "arrivals": 1,
    "declare": 2,
    "delete": 1,
}
