"""The panels of extensions on the page of a queue or a message."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from django.db import transaction
from django.utils.translation import gettext as _

from django_mq import conf
from django_mq.admin.table import alias

if TYPE_CHECKING:
    from django.db.models import Model
    from django.http import HttpRequest
    from django_stubs_ext import StrOrPromise

    from django_mq.seams.extension import Panel

logger = logging.getLogger("django_mq.admin")


def panels_of(request: HttpRequest, row: Model) -> list[tuple[StrOrPromise, str]]:
    """Return the titles and contents of the panels that have something to show of a row."""
    panels = (panel for panel in conf.extensions().panels if panel.page == row._meta.model_name)
    found = [(panel.title, _content(panel, request, row)) for panel in panels]
    return [(title, content) for title, content in found if content]


def _content(panel: Panel, request: HttpRequest, row: Model) -> str:
    try:
        # An error of a statement must not spoil the transaction of the page.
        with transaction.atomic(using=alias()):
            return panel.content(request, row)
    except Exception:
        logger.exception("The panel %r cannot be shown", panel.title)
        return _("This panel cannot be shown; the log says why.")
