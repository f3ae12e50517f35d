"""The list of bindings, and the form of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from django_mq.admin.filters import QueueFilter
from django_mq.admin.table import TableAdmin, TableForm, alias
from django_mq.delivery.validation import check_selector
from django_mq.engine.decisions.routing import WITHOUT_PATTERN
from django_mq.errors import ConfigurationError, MalformedSelector
from django_mq.models import Binding, Exchange

if TYPE_CHECKING:
    from django.db.models import QuerySet


class BindingForm(TableForm):
    """Checks that an exchange has one type. A fanout or headers exchange has no patterns."""

    class Meta:
        model = Binding
        fields: ClassVar = ["exchange", "exchange_type", "pattern", "selector", "queue"]

    def clean_selector(self) -> str:
        try:
            return check_selector(self.cleaned_data["selector"])
        except (ConfigurationError, MalformedSelector) as error:
            raise ValidationError(str(error)) from error

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if cleaned.get("exchange_type") in WITHOUT_PATTERN:
            cleaned["pattern"] = ""
        known = self._known_type(cleaned)
        if known not in {None, cleaned.get("exchange_type")}:
            self.add_error("exchange_type", self._type_error(cleaned["exchange"], str(known)))
        elif self._others(cleaned).filter(pattern=cleaned.get("pattern"), queue=cleaned.get("queue")).exists():
            self.add_error(None, _("The queue is already bound to this exchange by this pattern."))
        return cleaned

    def _others(self, cleaned: dict[str, Any]) -> QuerySet[Binding]:
        return Binding.objects.using(alias()).filter(exchange=cleaned.get("exchange")).exclude(pk=self.instance.pk)

    def _known_type(self, cleaned: dict[str, Any]) -> str | None:
        """Return the type that the exchange was declared with, or that of its other bindings."""
        declared = Exchange.objects.using(alias()).filter(name=cleaned.get("exchange")).first()
        other = declared or self._others(cleaned).first()
        return None if other is None else other.exchange_type

    @staticmethod
    def _type_error(exchange: str, known: str) -> str:
        return _("“%(exchange)s” is a %(type)s exchange; all its bindings have that type.") % {
            "exchange": exchange,
            "type": Binding.ExchangeType(known).label,
        }

    def validate_unique(self) -> None:
        """Do nothing: ``clean`` has checked the alias of the queues."""

    def validate_constraints(self) -> None:
        """Do nothing, as ``validate_unique``."""


class BindingAdmin(TableAdmin):
    form = BindingForm
    list_display = ["exchange", "exchange_type", "pattern", "selector", "queue"]
    list_filter = ["exchange_type", QueueFilter]
    list_select_related = ["queue"]
    search_fields = ["exchange", "pattern", "selector", "queue__name"]
