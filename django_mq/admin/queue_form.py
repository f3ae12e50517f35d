"""The form of a queue: what an operator may set, and what would make no sense."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from django_mq.admin.table import TableForm, alias
from django_mq.delivery.circles import leads_back
from django_mq.engine.options import LINKS, OPTIONS, QueueOptions
from django_mq.models import Queue

if TYPE_CHECKING:
    from typing import ClassVar


class QueueForm(TableForm):
    """Checks a queue against the other queues."""

    class Meta:
        model = Queue
        fields: ClassVar = [
            "name",
            "closed",
            "kind",
            "levels",
            "due_order",
            "max_attempts",
            "backoff_seconds",
            "backoff_multiplier",
            "backoff_cap_seconds",
            "backoff_jitter",
            "dead_letter_queue",
            "last_value_key",
            "max_messages",
            "max_bytes",
            "overflow",
            "wait_seconds",
            "dedup_count",
            "dedup_seconds",
            "ttl_seconds",
            "min_ttl_seconds",
            "max_ttl_seconds",
            "expiry_queue",
            "history_days",
            "history_body",
            "grouping",
            "strict",
            "exclusive",
            "max_consumers",
            "max_in_flight",
        ]
        help_texts: ClassVar = {
            "name": _("Publishers and consumers know the queue by this name; it cannot be changed later."),
            "kind": _(
                "A first-in-first-out queue has one level, whatever the priorities. Messages that are already "
                "there keep their level; change their priority or move them to place them anew."
            ),
            "levels": _(
                "Priority lists of a priority queue, 1 to 10; a first-in-first-out queue ignores it. Another "
                "number places new messages only: those already there keep their level until their priority is "
                "changed or they are moved."
            ),
            "backoff_jitter": _("Share of the delay that is drawn at random, 0 to 1."),
        }

    def clean_dead_letter_queue(self) -> Queue | None:
        """Refuse a chain that leads dead letters back here: they would travel for ever."""
        chosen: Queue | None = self.cleaned_data["dead_letter_queue"]
        if chosen is None:
            return None
        if chosen.pk == self.instance.pk:
            raise ValidationError(_("A queue cannot be its own dead-letter queue."))
        if self.instance.pk is not None and leads_back(self.instance.name, chosen.name, using=alias()):
            raise ValidationError(
                _("Dead letters of “%(queue)s” lead back to this queue."), params={"queue": chosen.name}
            )
        return chosen

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if not self.errors:
            given = {name: cleaned[name] for name in OPTIONS if name not in LINKS}
            settings = QueueOptions(**given)
            for sentence in [*settings.problems(), *settings.contradictions()]:
                self.add_error(None, sentence + ".")
        return cleaned

    def clean_expiry_queue(self) -> Queue | None:
        """Refuse the queue itself: its messages would expire for ever."""
        chosen: Queue | None = self.cleaned_data["expiry_queue"]
        if chosen is not None and chosen.pk == self.instance.pk:
            raise ValidationError(_("A queue cannot be its own expiry queue."))
        return chosen

    def validate_unique(self) -> None:
        """Look for the name where the queues live; the model would ask the default database."""
        same = Queue.objects.using(alias()).filter(name=self.cleaned_data.get("name")).exclude(pk=self.instance.pk)
        if same.exists():
            self.add_error("name", self.instance.unique_error_message(Queue, ("name",)))
