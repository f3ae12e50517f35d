"""The app's configuration."""

from django.apps import AppConfig


class LibraryConfig(AppConfig):
    """The library index."""

    name = "library"
    verbose_name = "Library index"
