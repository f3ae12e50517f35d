"""The app's configuration: ``ready()`` only calls named steps and never touches the database."""

from __future__ import annotations

from contextlib import suppress

from django.apps import AppConfig
from django.core.signals import setting_changed
from django.utils.translation import gettext_lazy as _


class DjangoMQConfig(AppConfig):
    name = "django_mq"
    verbose_name = _("Message queues")
    default_auto_field = "django.db.models.BigAutoField"

    def import_models(self) -> None:
        """Import the models. Other apps may declare handlers from now on, before they are ready."""
        from django_mq import conf  # noqa: PLC0415 - apps are being loaded until now
        from django_mq.deaths import EXTENSION as DEATHS  # noqa: PLC0415 - as above
        from django_mq.typed.extension import EXTENSION as TYPED  # noqa: PLC0415 - as above
        from django_mq.unique.extension import EXTENSION as UNIQUE  # noqa: PLC0415 - as above

        conf.add_extension(TYPED)
        conf.add_extension(DEATHS)
        conf.add_extension(UNIQUE)
        super().import_models()
        # Their tables are models of this app, which are imported now.
        from django_mq.acts.extension import EXTENSION as ACTS  # noqa: PLC0415 - as above
        from django_mq.alerts import models as of_alerts  # noqa: F401, PLC0415 - as above
        from django_mq.alerts.extension import EXTENSION as ALERTS  # noqa: PLC0415 - as above
        from django_mq.batches import models as of_batches  # noqa: F401, PLC0415 - as above
        from django_mq.batches.extension import EXTENSION as BATCHES  # noqa: PLC0415 - as above
        from django_mq.bridges import models as of_bridges  # noqa: F401, PLC0415 - as above
        from django_mq.bridges.extension import EXTENSION as BRIDGES  # noqa: PLC0415 - as above
        from django_mq.diagnosis.state.running import EXTENSION as RUNNING  # noqa: PLC0415 - as above
        from django_mq.durable.extension import EXTENSION as DURABLE  # noqa: PLC0415 - as above
        from django_mq.failures.extension import EXTENSION as FAILURES  # noqa: PLC0415 - as above
        from django_mq.models.queue import add_options  # noqa: PLC0415 - as above
        from django_mq.periodic import models  # noqa: F401, PLC0415 - as above
        from django_mq.periodic.extension import EXTENSION as PERIODIC  # noqa: PLC0415 - as above
        from django_mq.replies.extension import EXTENSION as REPLIES  # noqa: PLC0415 - as above
        from django_mq.results import models as of_results  # noqa: F401, PLC0415 - as above
        from django_mq.results.extension import EXTENSION as RESULTS  # noqa: PLC0415 - as above
        from django_mq.rollups.extension import EXTENSION as ROLLUPS  # noqa: PLC0415 - as above
        from django_mq.search.extension import EXTENSION as SEARCH  # noqa: PLC0415 - as above
        from django_mq.tenants.extension import EXTENSION as TENANTS  # noqa: PLC0415 - as above
        from django_mq.tiles.extension import EXTENSION as TILES  # noqa: PLC0415 - as above
        from django_mq.workflows.extension import EXTENSION as WORKFLOWS  # noqa: PLC0415 - as above

        conf.add_extension(DURABLE)
        conf.add_extension(FAILURES)
        conf.add_extension(RUNNING)
        conf.add_extension(PERIODIC)
        conf.add_extension(SEARCH)
        add_options(SEARCH.queue_options)
        conf.add_extension(ALERTS)
        conf.add_extension(ROLLUPS)
        conf.add_extension(TENANTS)
        conf.add_extension(ACTS)
        conf.add_extension(TILES)
        conf.add_extension(REPLIES)
        conf.add_extension(WORKFLOWS)
        conf.add_extension(RESULTS)
        conf.add_extension(BATCHES)
        conf.add_extension(BRIDGES)
        add_options(BRIDGES.queue_options)

    def ready(self) -> None:
        from django_mq import checks, conf  # noqa: PLC0415 - apps are being loaded until now
        from django_mq.bridges import checks as bridge_checks  # noqa: PLC0415 - as above
        from django_mq.bridges import receiver_checks  # noqa: PLC0415 - as above
        from django_mq.periodic import checks as periodic_checks  # noqa: PLC0415 - as above

        checks.register_all()
        bridge_checks.register()
        receiver_checks.register()
        periodic_checks.register()
        setting_changed.connect(conf.forget, dispatch_uid="django_mq.conf.forget")
        self.add_options_of_extensions()
        setting_changed.connect(self.add_options_of_extensions, dispatch_uid="django_mq.apps.options")
        self.keep_results_of_removed_tasks(setting="TASKS")
        setting_changed.connect(self.keep_results_of_removed_tasks, dispatch_uid="django_mq.apps.tasks")
        self.register_celery_scheme()

    @staticmethod
    def keep_results_of_removed_tasks(*, setting: str, **_: object) -> None:
        """Let the results of tasks be written when their messages are removed, where a backend of ours is used."""
        from django.conf import settings  # noqa: PLC0415 - as above
        from django.utils.module_loading import import_string  # noqa: PLC0415 - as above

        from django_mq import conf  # noqa: PLC0415 - as above

        if setting != "TASKS":
            return
        conf.remove_extension("tasks")
        for backend in (getattr(settings, "TASKS", None) or {}).values():
            with suppress(ImportError, AttributeError, TypeError, KeyError):  # Django says what is wrong
                kind = import_string(backend["BACKEND"])
                if any(base.__module__.startswith("django_mq.integrations.tasks.") for base in kind.__mro__):
                    from django_mq.integrations.tasks.results import EXTENSION  # noqa: PLC0415 - only where used

                    conf.add_extension(EXTENSION)

    @staticmethod
    def add_options_of_extensions(**_: object) -> None:
        """Let the rows of queues have the options of extensions. Wrong settings are told by the checks."""
        from django_mq import conf  # noqa: PLC0415 - as above
        from django_mq.errors import ConfigurationError  # noqa: PLC0415 - as above
        from django_mq.models.queue import add_options  # noqa: PLC0415 - as above

        with suppress(ConfigurationError, TypeError):
            if "EXTENSIONS" in conf.raw():
                add_options(conf.extensions().queue_options)

    @staticmethod
    def register_celery_scheme() -> None:
        """Teach Kombu the django-mq:// scheme, without importing Kombu in projects that do not use Celery."""
        from django_mq import conf  # noqa: PLC0415 - as above
        from django_mq.integrations.celery import beat, checks, url  # noqa: PLC0415 - keeps Celery's import out

        checks.register()
        url.register_if_used()
        beat.connect()
        conf.add_extension(beat.EXTENSION)
