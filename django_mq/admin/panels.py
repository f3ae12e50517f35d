"""The panels of extensions on the page of a queue or a message, and their events in its timeline."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from django.db import transaction
from django.utils.translation import gettext as _

from django_mq import conf
from django_mq.admin.table import alias

if TYPE_CHECKING:
    from collections.abc import Collection
    from uuid import UUID

    from django.db.models import Model
    from django.http import HttpRequest
    from django_stubs_ext import StrOrPromise

    from django_mq.seams.extension import MessageEvent, Panel

logger = logging.getLogger("django_mq.admin")


def panels_of(request: HttpRequest, row: Model) -> list[tuple[StrOrPromise, str]]:
    """Return the titles and contents of the panels that have something to show of a row."""
    panels = (panel for panel in conf.extensions().panels if panel.page == row._meta.model_name)
    found = [(panel.title, _content(panel, request, row)) for panel in panels]
    return [(title, content) for title, content in found if content]


def events_of(request: HttpRequest, message_ids: Collection[UUID]) -> list[MessageEvent]:
    """Return what extensions know that happened to a message; what fails is logged, and left out."""
    events: list[MessageEvent] = []
    for function in conf.extensions().events if message_ids else ():
        try:
            with transaction.atomic(using=alias()):
                events += function(request, alias(), message_ids)
        except Exception:
            logger.exception("The events of %r cannot be shown", function)
    return events


def _content(panel: Panel, request: HttpRequest, row: Model) -> str:
    try:
        # An error of a statement must not spoil the transaction of the page.
        with transaction.atomic(using=alias()):
            return panel.content(request, row)
    except Exception:
        logger.exception("The panel %r cannot be shown", panel.title)
        return _("This panel cannot be shown; the log says why.")
