"""The form for a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib.admin.utils import flatten
from django.contrib.admin.widgets import AdminTextareaWidget
from django.core.exceptions import ValidationError
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from django_mq import conf
from django_mq.admin.table import TableForm, alias
from django_mq.delivery.operator.queue_editor import links_back
from django_mq.engine.options import LINKS, NAME_LENGTH, OPTIONS, OTHERS, SECTIONS, QueueOptions
from django_mq.models import Queue

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import ClassVar

    from django_mq.engine.options import Option


#: A text that may have more characters has a field of several lines.
ONE_LINE = 255
#: The style of a group of fields that is folded.
FOLDED = "collapse"


def option_fieldsets(queue: Queue | None) -> list[Any]:
    """Return what differs from the defaults, and the others folded, by subject."""
    options = conf.queue_options()
    differs = {
        name for name, option in options.items() if queue is not None and queue.value_of(name) != option.default
    }
    sections = dict.fromkeys([*SECTIONS, *(option.section for option in conf.extensions().queue_options)])
    shown = [line for section in sections for line in _lines(section, differs)]
    words = _("What differs from the defaults. The other settings are below, by subject.")
    first = (_("Settings"), {"fields": [("name", "closed"), *shown], "description": words})
    others = [(_(section), lines) for section in sections if (lines := _lines(section, {*options} - differs))]
    return [first, *((heading, {"fields": lines, "classes": [FOLDED]}) for heading, lines in others)]


def _lines(section: str, wanted: Collection[str]) -> list[tuple[str, ...]]:
    """Return those of the options of a section that are wanted, as lines of the form."""
    lines: list[list[str]] = []
    for name, option in conf.queue_options().items():
        if option.section == section:
            if not option.beside or not lines:
                lines.append([])
            lines[-1].append(name)
    kept = [tuple(name for name in line if name in wanted) for line in lines]
    return [line for line in kept if line]


def has_error(options: Mapping[str, Any], form: forms.BaseForm) -> bool:
    """Return whether a field of a fieldset has an error. Django looks only at fields that stand alone."""
    return bool({*flatten(options["fields"])} & {*form.errors})


def without_fold(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a fieldset that is open."""
    return {**options, "classes": [name for name in options.get("classes", ()) if name != FOLDED]}


class QueueForm(TableForm):
    class Meta:
        model = Queue
        fields: ClassVar = ["name", "closed", *(name for name in OPTIONS if name not in OTHERS)]
        help_texts: ClassVar = {
            "name": _("Publishers and consumers know the queue by this name; it cannot be changed later."),
            # A read-only page has no form fields that could give the help texts and labels.
            **{name: _(OPTIONS[name].help) for name in OTHERS},
        }
        widgets: ClassVar = {"selectors": forms.Textarea(attrs={"rows": 3, "cols": 80})}
        labels: ClassVar = {name: capfirst(_(OPTIONS[name].label)) for name in OTHERS}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in _without_column():
            self.initial.setdefault(name, getattr(self.instance, name))

    def clean_dead_letter_queue(self) -> Queue | None:
        """Refuse a cycle of dead-letter queues."""
        chosen: Queue | None = self.cleaned_data["dead_letter_queue"]
        if chosen is None:
            return None
        if chosen.pk == self.instance.pk:
            raise ValidationError(_("A queue cannot be its own dead-letter queue."))
        if links_back(self.instance.name, dead_letter_queue=chosen.name, using=alias()):
            raise ValidationError(
                _("Dead letters of “%(queue)s” lead back to this queue."), params={"queue": chosen.name}
            )
        return chosen

    def clean_selectors(self) -> str:
        """Return the lines as the settings have them: a browser sends other ends."""
        return "\n".join(self.cleaned_data["selectors"].splitlines())

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if not self.errors:
            given = {name: cleaned[name] for name in conf.queue_options() if name not in LINKS}
            options = QueueOptions.of(given)
            added = conf.extensions().queue_options
            for name, sentence in [*options.wrong_values(added), *options.wrong_combinations()]:
                self.add_error(name if name in self.fields else None, sentence + ".")
            for name in cleaned.keys() & _without_column():
                setattr(self.instance, name, cleaned[name])
        return cleaned

    def clean_expiry_queue(self) -> Queue | None:
        chosen: Queue | None = self.cleaned_data["expiry_queue"]
        if chosen is not None and links_back(self.instance.name, expiry_queue=chosen.name, using=alias()):
            raise ValidationError(_("A queue cannot be its own expiry queue."))
        return chosen

    def validate_unique(self) -> None:
        """Check the name in the database of the queues. Django would check it in the default database."""
        same = Queue.objects.using(alias()).filter(name=self.cleaned_data.get("name")).exclude(pk=self.instance.pk)
        if same.exists():
            self.add_error("name", self.instance.unique_error_message(Queue, ("name",)))


def _without_column() -> tuple[str, ...]:
    return (*OTHERS, *(option.name for option in conf.extensions().queue_options))


def form_class() -> type[QueueForm]:
    """Return the form with the fields of all options, also of extensions."""
    added = {option.name: _field(option) for option in conf.extensions().queue_options}
    return type("QueueForm", (QueueForm,), added) if added else QueueForm


def _field(option: Option) -> forms.Field:
    """Return the form field of an option without a column."""
    texts: dict[str, Any] = {"label": capfirst(_(option.label)), "help_text": _(option.help)}
    if option.base_type == "bool":
        return forms.BooleanField(required=False, **texts)
    if option.choices:
        choices = [(value, _(label)) for value, label in option.choices.items()]
        return forms.ChoiceField(choices=choices, **texts)
    if option.base_type == "str":
        if option.length > ONE_LINE:
            texts["widget"] = AdminTextareaWidget(attrs={"rows": 3})
        texts["empty_value"] = None if option.optional else ""
        return forms.CharField(required=False, max_length=option.length or NAME_LENGTH, **texts)
    number: Any = {"int": forms.IntegerField, "float": forms.FloatField}[option.base_type]
    form_field: forms.Field = number(
        min_value=option.least, max_value=option.most, required=not option.optional, **texts
    )
    return form_field


QueueForm.declared_fields.update({name: _field(OPTIONS[name]) for name in OTHERS})
