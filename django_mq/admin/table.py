"""The base class of all pages. They read the alias of the queues, with or without a database router."""

# ruff: noqa: ARG002 - Django calls these with arguments of its own

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django import forms
from django.apps import apps
from django.contrib import admin
from django.contrib.admin import helpers
from django.contrib.admin.views.main import PAGE_VAR, SEARCH_VAR
from django.contrib.admin.widgets import RelatedFieldWidgetWrapper
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.http import urlencode
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from django_mq import conf
from django_mq.acts import recorder
from django_mq.acts.operators import of_site
from django_mq.admin import live
from django_mq.admin.addresses import LIST
from django_mq.admin.paginator import NUMBER, BoundedChangeList, BoundedPaginator, with_ids_only
from django_mq.admin.tabs import queue_in, tabs_of
from django_mq.diagnosis.messages import slices
from django_mq.diagnosis.messages.terms import identified

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    from django.contrib.admin.views.main import ChangeList
    from django.db.models import ForeignKey, Model, Q, QuerySet
    from django.forms import Field, ModelChoiceField
    from django.http import HttpRequest, HttpResponse

    from django_mq.acts.models import Act


def alias() -> str:
    """Return the database alias of the queues."""
    return conf.load().DATABASE


def base_of(name: str) -> Any:
    """Return the admin class of this name, from django-unfold if it is installed."""
    if not apps.is_installed("unfold"):
        return getattr(admin, name)
    from unfold import admin as unfold  # type: ignore[import-untyped,import-not-found,unused-ignore] # noqa: PLC0415 - where a project has it

    return getattr(unfold, name)


if TYPE_CHECKING:
    BaseAdmin = admin.ModelAdmin[Any]
else:
    BaseAdmin = base_of("ModelAdmin")


#: The attribute of a request with what its list has found, and the limit.
FOUND = "_mq_found"


class TableAdmin(BaseAdmin):
    """The list and the pages of a table of django_mq."""

    # A count of the unfiltered table would walk millions of rows.
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    # Rendering the rows is most of the time of a list.
    list_per_page = 50

    #: Columns that only the page of a row fetches.
    late: Sequence[str] = ()
    #: The template of a refresh of the page of a row, if it leaves out what takes long and does not change.
    refresh_template = ""
    #: What the id of a row can be.
    id_form = NUMBER
    #: Further pages for users with the view permission: path to view.
    pages: Mapping[str, Callable[[Any, HttpRequest], HttpResponse]] = {}

    class Media:
        css = {"all": ["django_mq/admin.css"]}
        js = ["django_mq/keys.js", "django_mq/lists.js", "django_mq/live.js"]

    def get_urls(self) -> list[Any]:
        own = []
        for address, view in self.pages.items():
            name = address.rstrip("/").replace(".", "_")
            answer = self.admin_site.admin_view(partial(self._answer, view=view))
            own.append(path(address, answer, name=f"{self.opts.app_label}_{self.opts.model_name}_{name}"))
        return own + super().get_urls()

    @live.watched
    def _answer(self, request: HttpRequest, *, view: Callable[[Any, HttpRequest], HttpResponse]) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        return view(self, request)

    def page(self, request: HttpRequest, template: str, title: str, **context: Any) -> TemplateResponse:
        """Return a page that shows no single row."""
        request.current_app = self.admin_site.name
        # A refresh has no frame.
        frame = {"frame": live.BARE} if live.shown(request) else self.admin_site.each_context(request)
        shared = {**frame, "title": title, "opts": self.opts, "media": self.media}
        return TemplateResponse(request, f"admin/django_mq/{template}.html", shared | context)

    @live.watched
    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        tabs = tabs_of(self, request, queue_in(request))
        context = {"title": self.list_title(request), "tabs": tabs}
        response = super().changelist_view(request, context | (extra_context or {}))
        if live.shown(request) and isinstance(response, TemplateResponse) and not apps.is_installed("unfold"):
            response.template_name = live.BARE_LIST
        return response

    def list_title(self, request: HttpRequest) -> str:
        """Return the heading of the list: what it shows, and not what to do with it."""
        return capfirst(str(self.opts.verbose_name_plural))

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return BoundedChangeList

    def get_paginator(self, request: HttpRequest, queryset: QuerySet[Any], *args: Any, **kwargs: Any) -> Any:
        paginator = super().get_paginator(request, queryset, *args, **kwargs)
        # Django lists the log entries of a row with the same paginator.
        if isinstance(paginator, BoundedPaginator) and queryset.model is self.model:
            paginator.wanted = request.GET.get(PAGE_VAR, 1)
            paginator.every = self.get_queryset(request)
            paginator.find = partial(self.look, request)
            if (seen := live.shown(request)) and seen.rows:
                keys = [self.opts.pk.to_python(key) for key in seen.rows if self.id_form.fullmatch(key)]
                paginator.find = partial(slices.among, keys)
        return paginator

    def look(
        self, request: HttpRequest, rows: QuerySet[Any], limit: int, *, among: Q | None = None
    ) -> slices.FoundKeys:
        """Return what ``find`` finds, once for each request."""
        found: tuple[slices.FoundKeys, int] | None = getattr(request, FOUND, None)
        if found is not None and not among and len(found[0].ids) < found[1]:
            return found[0]._replace(ids=found[0].ids[:limit])
        look = self.find(request, rows, limit, among=among)
        if not among:
            setattr(request, FOUND, (look, limit))
        return look

    def find(
        self, request: HttpRequest, rows: QuerySet[Any], limit: int, *, among: Q | None = None
    ) -> slices.FoundKeys:
        """Return the keys of the first of these rows, which the request asks for, that are in ``among``."""
        rows = rows.filter(among) if among else rows
        by_key = {*rows.query.order_by} <= {"-id", "-pk"}
        if request.GET.get(SEARCH_VAR) or not by_key:  # a search is bounded
            return slices.as_listed(rows, limit)
        return slices.newest(rows, limit, request.GET.get(slices.BEFORE, ""))

    def get_preserved_filters(self, request: HttpRequest) -> str:
        """Return the filters of the list that the user came from, unless that is the list of another table."""
        if request.GET.get(LIST, self.opts.model_name) != self.opts.model_name:
            return ""
        return str(super().get_preserved_filters(request))

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return a row with its late columns, or None if it does not exist any more.

        Django would fetch each deferred column by itself, from where the site's router says: perhaps a replica.
        """
        row = super().get_object(request, object_id, from_field)
        if row is not None and self.late:
            try:
                row.refresh_from_db(using=alias(), fields=self.late)
            except self.model.DoesNotExist:
                row = None
        if row is None and live.shown(request):
            raise Http404  # Django would redirect, and tell the user each time
        return row

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).using(alias())

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        found = self.meant_by(queryset, term) if term else queryset
        return super().get_search_results(request, queryset, search_term) if found is None else (found, False)

    def meant_by(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any] | None:
        """Return the rows that are meant by a term, which is not blank; None for those that Django finds by it."""
        return None

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Any], *args: Any, **kwargs: Any
    ) -> HttpResponse | None:
        """Run an action on the chosen rows. Texts that cannot be ids are left out."""
        request.POST = with_ids_only(request.POST, self.id_form)  # type: ignore[assignment] # as immutable as the one before
        return super().response_action(request, queryset, *args, **kwargs)

    def formfield_for_foreignkey(
        self, db_field: ForeignKey[Any, Any], request: HttpRequest, **kwargs: Any
    ) -> ModelChoiceField[Any] | None:
        return super().formfield_for_foreignkey(db_field, request, **kwargs | {"using": alias()})

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Field | None:
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if field is not None and isinstance(field.widget, RelatedFieldWidgetWrapper):
            # The page that deletes a queue knows what the queue holds.
            field.widget.can_delete_related = False
        return field

    def save_model(self, request: HttpRequest, obj: Model, form: forms.ModelForm[Any], change: bool) -> None:
        """Write only the changed fields: the queue may have been paused meanwhile."""
        obj.save(using=alias(), update_fields=form.changed_data if change else None)

    def new_act(self, request: HttpRequest, name: str, **values: Any) -> Act:
        """Return an act of the user of the request on this table, which is not written yet."""
        model, operator = str(self.opts.model_name), of_site(request.user.get_username())
        return recorder.new_act(operator, model, name, **values)

    def log_entry(self, request: HttpRequest, row: Any, sentence: Any) -> Any:
        """Write the entry of Django's log for a change."""
        return super().log_change(request, row, sentence)

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return self._noted(request, "add", obj, super().log_addition(request, obj, message))

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return self._noted(request, "change", obj, self.log_entry(request, obj, message))

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        rows = list(queryset)
        for row in rows:
            recorder.write(self.new_act(request, "delete", about=row), using=alias())
        return super().log_deletions(request, rows)  # type: ignore[arg-type] # any iterable will do

    def _noted(self, request: HttpRequest, name: str, row: Any, entry: Any) -> Any:
        """Write what a form has changed as an act, and return the entry of Django's log."""
        act = self.new_act(request, name, about=row, sentence=entry.get_change_message())
        recorder.write(act, using=alias())
        return entry

    @live.watched
    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        response = super().changeform_view(request, *args, **kwargs)
        if live.shown(request) and isinstance(response, TemplateResponse) and self.refresh_template:
            response.template_name = self.refresh_template
        return response

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        row = kwargs["obj"]
        if row is not None:
            context |= self.details(request, row)
        return super().render_change_form(request, context, *args, **kwargs)

    def details(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return context for the page of a row."""
        return {}

    def is_described_by_url(self, request: HttpRequest) -> bool:
        """Return whether the filters in the URL describe the list. A subclass of the site may hide rows."""
        return True

    def may(self, request: HttpRequest, codename: str) -> bool:
        """Return whether the user has a permission of this app."""
        return request.user.has_perm(f"{self.opts.app_label}.{codename}")

    def list_address(self, model: type[Model], **filters: Any) -> str:
        """Return the URL of a list, with these filters."""
        name = model._meta.model_name
        address = reverse(f"{self.admin_site.name}:{self.opts.app_label}_{name}_changelist")
        return f"{address}?{urlencode(filters)}" if filters else address

    def page_address(self, model: type[Model], row_id: UUID | int | None) -> str:
        """Return the URL of the page of a row."""
        name = model._meta.model_name
        return reverse(f"{self.admin_site.name}:{self.opts.app_label}_{name}_change", args=[row_id])

    def buttons(self, actions: list[tuple[str, str]]) -> dict[str, Any]:
        """Return the context of buttons.html: (name, label) of actions to offer on the page of a row."""
        return {
            "buttons": actions,
            "buttons_address": self.list_address(self.model),
            "action_checkbox_name": helpers.ACTION_CHECKBOX_NAME,
        }


class IdSearch(TableAdmin):
    """A list that is searched by message id and correlation id, which have an index."""

    search_fields = ["message_id", "correlation_id"]
    search_help_text = _(
        "Search for a message id or a correlation id (the id of a Celery task is one). Among the newest 100,000 "
        "rows, also for the 8 characters of a message id that lists show."
    )

    def meant_by(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        return identified(queryset, term)


class ReadOnly:
    """A mixin for a ModelAdmin or an inline: no user can add, change or delete rows. Empty fields are hidden."""

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        found: Any = super().get_fieldsets(request, obj)  # type: ignore[misc] # of the class beside it
        if obj is None or not isinstance(obj, self.model):  # type: ignore[attr-defined]
            return found
        kept = [(heading, {**options, "fields": _filled(obj, options["fields"])}) for heading, options in found]
        return [entry for entry in kept if entry[1]["fields"]]

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def _filled(row: Any, fields: Sequence[Any]) -> list[Any]:
    """Return the fields, alone or beside each other, without those that are empty in this row."""
    lines = [(one,) if isinstance(one, str) else one for one in fields]
    shown = [tuple(name for name in line if not _is_empty(getattr(row, name, name))) for line in lines]
    return [line for line in shown if line]


def _is_empty(value: Any) -> bool:
    return value is None or value == ""


class TableForm(forms.ModelForm):  # type: ignore[type-arg] # not subscriptable at run time
    """A form that checks uniqueness on the alias of the queues."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.instance._state.db = alias()  # noqa: SLF001 - as save(using=...) sets it
