"""What targets get: words for people, and values for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

from django.utils.translation import gettext as _

from django_mq.alerts.observed import NAMESPACE
from django_mq.diagnosis.language import LOCAL
from django_mq.engine.decisions.alerts import AlertNews

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from django_mq.alerts.models import AlertNotice

#: The most characters of a subject.
SUBJECT = 150


def id_of(notices: Sequence[AlertNotice]) -> UUID:
    """Return the id of a message about these: the same at each try."""
    return uuid5(NAMESPACE, " ".join(str(notice.pk) for notice in notices))


def line(notice: AlertNotice) -> str:
    """Return one notice in a line."""
    alert, about = notice.alert, _subject(notice)
    if notice.news == AlertNews.OVER:
        return _("%(about)s: over after %(lasted)s.") % {
            "about": about,
            "lasted": LOCAL.duration(alert.lasted.total_seconds()),
        }
    return f"{about}: {alert.sentence}"


def _subject(notice: AlertNotice) -> str:
    alert = notice.alert
    words = " ".join(filter(None, (alert.get_level_display(), alert.cause, alert.about)))
    return " ".join(words.split())


def subject(notices: Sequence[AlertNotice]) -> str:
    """Return the subject of a mail, in one line."""
    first = notices[0]
    words = line(first) if first.news == AlertNews.OVER else _subject(first)
    if len(notices) > 1:
        words = _("%(first)s and %(count)s more") % {"first": words.rstrip("."), "count": len(notices) - 1}
    return f"[django_mq] {words}"[:SUBJECT]


def text(notices: Sequence[AlertNotice]) -> str:
    return "\n".join(line(notice) for notice in notices)


def payload(notices: Sequence[AlertNotice], now: datetime) -> dict[str, Any]:
    """Return what a webhook gets. ``text`` is for chat programs, which show nothing else."""
    return {
        "type": "django_mq.alerts",
        "timestamp": now.isoformat(),
        "text": text(notices),
        "data": {"alerts": [_object(notice) for notice in notices]},
    }


def _object(notice: AlertNotice) -> dict[str, Any]:
    alert = notice.alert
    return {
        "id": alert.pk,
        "news": str(notice.news),
        "cause": alert.cause,
        "about": alert.about,
        "level": alert.level,
        "sentence": alert.sentence,
        "began_at": alert.began_at.isoformat(),
        "ended_at": alert.ended_at and alert.ended_at.isoformat(),
        "lasted_seconds": alert.lasted.total_seconds(),
    }
