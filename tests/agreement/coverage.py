"""How often each operation was performed, and how often each rule has decided something."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from django_mq.engine.decisions.claim import MOST_BYTES
from django_mq.models import History

if TYPE_CHECKING:
    from collections.abc import Iterator


class Coverage:
    """Counts what the oracle answered."""

    def __init__(self) -> None:
        self.operations: Counter[str] = Counter()
        self.rules: Counter[str] = Counter()
        self._before: dict[str, Any] = {}

    def note(self, name: str, given: dict[str, Any], answer: Any, view: dict[str, Any]) -> None:
        """Count one operation, by its answer and by what was to be seen after it."""
        self.operations[name] += 1
        if isinstance(answer, dict) and "refused" in answer:
            self.rules[f"{name}: {answer['refused']}"] += 1
        else:
            self.rules.update(self._decided(name, given, answer))
        self.rules.update(
            f"finished: {History.Outcome(item['outcome']).name.lower()}" for item in view["finished"]
        )
        self.rules.update(f"told: {end.lower()}" for _, _, end, *_ in view["ended"])
        self.rules.update(f"attempt failed: {item['error']}" for item in view["failed"])
        self.rules.update(self._moved(view))
        self.rules.update(self._in_advance(view))
        self.rules.update(
            f"limit by key: {what}" for facts in view["limits"].values() for what, some in facts.items() if some
        )
        self._before = view

    def _decided(self, name: str, given: dict[str, Any], answer: Any) -> Iterator[str]:
        if name == "publish" and not all(answer):
            yield "publish: dropped"
        if name == "publish_again":
            yield f"publish again: {'written before' if not all(answer) or not answer else 'written'}"
        if name in {"claim", "settle"} and answer is not None:
            yield from ("settle: void" if void else "settle: done" for void in answer["void"])
            claim = given if name == "claim" else given.get("claim")
            if claim is not None:
                yield from self._claimed(claim, answer)
        elif name == "settle_late":
            yield from (f"settle late: {'void' if void else 'done'}" for void in answer)
        elif isinstance(answer, (int, bool)) and answer:
            yield f"{name} {given.get('how', given.get('duty', ''))}".strip() + ": changed some"
        elif answer:
            yield f"{name}: answered"

    def _claimed(self, claim: dict[str, Any], answer: dict[str, Any]) -> Iterator[str]:
        """Say what kept the claim from what was ready, as far as can be told from outside."""
        claimed = answer["claimed"]
        yield from ("claim: suspect" for item in claimed if item["suspect"])
        yield from ("claim: expired" for item in claimed if item["expired"])
        yield from ("claim: redelivered" for item in claimed if item["redelivered"])
        if len({item["queue_name"] for item in claimed}) > 1:
            yield "claim: merged queues" + (", listed" if claim.get("listed") else "")
        if len(claimed) == claim["credit"]:
            yield "claim: cut by credit"
            return
        if claim.get("slots") == 0 and not claimed:
            yield "claim: without a free slot, nothing"
        taken = {(item["queue_name"], item["number"]) for item in claimed}
        for queue in claim["queues"]:
            record, items = (
                self._before.get("queues", {}).get(queue),
                self._before.get("messages", {}).get(queue, []),
            )
            left = [item for item in items if item["state"] == "READY" and (queue, item["number"]) not in taken]
            if left and record is not None:
                yield f"claim: some left, {self._reason(record, queue, claim, answer)}"

    def _reason(self, record: dict[str, Any], queue: str, claim: dict[str, Any], answer: dict[str, Any]) -> str:
        rules = [name for name in ("max_in_flight", "max_consumers", "strict", "exclusive") if record[name]]
        rules += [f"grouping {record['grouping']}"] if record["grouping"] != "none" else []
        rules += ["consumer priority"] if record["priorities_differ"] else []
        if record["paused"]:
            return "paused"
        if claim.get("limits", {}).get(queue) is not None:
            return "limit of the queue"
        if queue in claim.get("byte_credit", {}):
            return "byte credit"
        if any(item["suspect"] for item in answer["claimed"]):
            return "suspect alone"
        if rules:
            return " and ".join(rules[:2])
        return "bytes" if claim.get("max_bytes", MOST_BYTES) < MOST_BYTES else "before a suspect"

    def _moved(self, view: dict[str, Any]) -> Iterator[str]:
        """Say why messages have come to other queues, and which are dead."""
        known = {
            (queue, item["number"], item["dead_reason"])
            for queue, items in self._before.get("messages", {}).items()
            for item in items
        }
        for queue, items in view["messages"].items():
            for item in items:
                if item["dead_reason"] and (queue, item["number"], item["dead_reason"]) not in known:
                    stays = "stays dead" if item["state"] == "DEAD" else "sent on"
                    yield f"dead letter, {item['dead_reason']}: {stays}"

    def _in_advance(self, view: dict[str, Any]) -> Iterator[str]:
        """Say how many scheduled messages of last-value queues have become ready, or have gone."""
        now = {
            (queue, item["number"], item["state"]) for queue, items in view["messages"].items() for item in items
        }
        for queue, items in self._before.get("messages", {}).items():
            record = view["queues"].get(queue)
            for item in items if record is not None and record["last_value_key"] else ():
                if item["state"] == "SCHEDULED" and (queue, item["number"], "SCHEDULED") not in now:
                    is_here = any((queue, item["number"], state) in now for state in ("READY", "CLAIMED"))
                    yield f"last value in advance: {'arrived' if is_here else 'gone'}"

    def __str__(self) -> str:
        parts = []
        for title, counter in (("operations", self.operations), ("rules", self.rules)):
            parts.append(title)
            parts += [
                f"  {number:8} {name}" for name, number in sorted(counter.items(), key=lambda pair: -pair[1])
            ]
        return "\n".join(parts)
