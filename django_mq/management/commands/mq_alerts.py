"""Show alerts, or try where they are sent."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar

from django.core.management.base import CommandError

from django_mq.alerts.channels import send
from django_mq.alerts.extension import look_now, targets
from django_mq.alerts.models import AlertNotice, RecordedAlert
from django_mq.engine.decisions.alerts import AlertNews
from django_mq.formats import PLAIN, plural
from django_mq.management.arguments import argument, at_least_one
from django_mq.management.command import MQCommand
from django_mq.management.tables import table
from django_mq.stores.registry import shared_store

HEADINGS = ("LEVEL", "CAUSE", "ABOUT", "SINCE", "LASTED", "", "SENT TO")


class Command(MQCommand):
    help = (
        "Show the alerts that stand, the newest first. Or look for alerts and send them, where no worker does, or "
        "send a message to a target, to try its settings."
    )
    arguments: ClassVar = (
        argument("--all", action="store_true", help="Also those that are over; they are kept for 30 days."),
        argument("--limit", type=at_least_one, metavar="N", default=100, help="At most so many; default: 100."),
        argument("--look", action="store_true", help="Look and send now, as the leader of the workers does."),
        argument("--test", metavar="TARGET", help="Send this target a message, and say whether it was taken."),
    )
    json = "a JSON array, or an object of what was sent"

    def run(self, alias: str, **options: Any) -> None:
        if options["test"] is not None:
            self._test(options["test"])
            return
        if options["look"]:
            done = look_now(shared_store(alias))
            self.answer(done, f"{plural(done['changed'], 'alert')} began or ended. {done['sent']} sent.")
            return
        rows = RecordedAlert.objects.using(alias).prefetch_related("notices")
        found = list((rows if options["all"] else rows.filter(ended_at=None))[: options["limit"]])
        lines = [_line(row) for row in found]
        self.answer([_object(row) for row in found], table(HEADINGS, lines) if lines else "No alert stands.")

    def _test(self, name: str) -> None:
        by_name = {target.name: target for target in targets()}
        if name not in by_name:
            raise CommandError(
                f"There is no target {name!r}; DJANGO_MQ['ALERTS'] has {', '.join(by_name) or 'none'}."
            )
        now = datetime.now(UTC)
        words = "This is a test of mq_alerts: nothing is wrong."
        given = {"pk": 0, "cause": "test", "level": "notice", "sentence": words, "began_at": now, "seen_at": now}
        send(by_name[name], [AlertNotice(pk=0, alert=RecordedAlert(**given), news=AlertNews.BEGAN)], now)
        self.answer({"sent_to": name}, f"{name} has taken the message.")


def _line(row: RecordedAlert) -> tuple[str, ...]:
    sent = ", ".join(f"{notice.target} {notice.news}" for notice in row.notices.all() if notice.sent_at)
    state = "over" if row.ended_at else ""
    lasted = PLAIN.duration(row.lasted.total_seconds())
    return row.level, row.cause, row.about, PLAIN.time(row.began_at), lasted, state, sent


def _object(row: RecordedAlert) -> dict[str, Any]:
    names = ("id", "cause", "about", "level", "sentence", "began_at", "seen_at", "ended_at")
    told = ("target", "news", "tries", "sent_at", "next_at", "error")
    notices = [{name: getattr(notice, name) for name in told} for notice in row.notices.all()]
    return {name: getattr(row, name) for name in names} | {"notices": notices}
