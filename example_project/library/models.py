"""Rows of files, of the modules that they import, and of the summary."""

from __future__ import annotations

from uuid import uuid4

from django.db import models

from library.shelves import Kind


class SourceFile(models.Model):
    """A file of the library, and what was found in it."""

    class Status(models.TextChoices):
        """How far a file has come."""

        WAITING = "waiting"
        PARSED = "parsed"  # by a Celery task; its imports are on their way as a native message
        INDEXED = "indexed"
        BROKEN = "broken"

    #: A file is open until all that will ever be known about it is stored.
    OPEN = (Status.WAITING, Status.PARSED)

    path = models.CharField(max_length=500, unique=True)
    location = models.CharField(max_length=1000, help_text="Where the file was found on this machine.")
    kind = models.CharField(max_length=20, choices=[(kind.value, kind.value) for kind in Kind])
    priority = models.PositiveSmallIntegerField()
    task_id = models.UUIDField(
        default=uuid4, unique=True, editable=False, help_text="Of its Celery task, and so the correlation id."
    )
    status = models.CharField(max_length=20, choices=Status.choices, default=Status.WAITING)
    lines = models.PositiveIntegerField(default=0)
    tokens = models.PositiveIntegerField(default=0)
    comments = models.PositiveIntegerField(default=0)
    functions = models.PositiveIntegerField(default=0)
    classes = models.PositiveIntegerField(default=0)
    error = models.TextField(blank=True, default="")

    class Meta:
        ordering = ["path"]

    def __str__(self) -> str:
        return self.path


class Import(models.Model):
    """An edge: the file names the module in an import statement."""

    source = models.ForeignKey(SourceFile, on_delete=models.CASCADE, related_name="imports")
    module = models.CharField(max_length=500)

    class Meta:
        ordering = ["source", "module"]
        constraints = [models.UniqueConstraint(fields=["source", "module"], name="library_import_once")]

    def __str__(self) -> str:
        return f"{self.source_id} imports {self.module}"


class ShelfReport(models.Model):
    """What a step of the workflow has found in the files of one kind."""

    kind = models.CharField(max_length=20, unique=True)
    files = models.PositiveIntegerField()
    lines = models.PositiveIntegerField()
    most_imported = models.JSONField(default=list)

    class Meta:
        ordering = ["kind"]

    def __str__(self) -> str:
        return f"{self.kind}: {self.files} files"


class Summary(models.Model):
    """The totals after the last file. There is at most one row."""

    written_at = models.DateTimeField()
    files = models.PositiveIntegerField()
    broken = models.PositiveIntegerField()
    lines = models.PositiveIntegerField()
    tokens = models.PositiveIntegerField()
    comments = models.PositiveIntegerField()
    functions = models.PositiveIntegerField()
    classes = models.PositiveIntegerField()
    imports = models.PositiveIntegerField()

    class Meta:
        verbose_name_plural = "summaries"

    def __str__(self) -> str:
        return f"{self.files} files, {self.lines} lines"
