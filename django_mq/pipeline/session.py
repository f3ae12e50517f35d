"""Open a Spark session: local, on a cluster, under spark-submit, over Connect.

A master that you have chosen is kept: spark-submit's, or the server in
``SPARK_REMOTE``. Otherwise Spark runs in this process.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from django.db import connections

from django_mq.errors import PipelineError
from django_mq.pipeline import preflight
from django_mq.stores.connections import translating

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

LOCAL = "local[*]"
#: Logs errors only: Spark's log level alone does not suppress the lines of the start.
#: The path is absolute even if this is imported from a zip, where it is not used.
LOGGING = Path(__file__).absolute().parent / "log4j2.properties"
#: Environment variables for executors. No secrets: the process list and Spark's pages show them.
HANDED_ON = ("DJANGO_SETTINGS_MODULE",)

#: Options of every session, ours or not: times in UTC and in microseconds, and no number for a queue called "007".
NEEDED = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}
#: Options of a session that is opened here: Spark reads this number of rows of a Parquet file at once, of 4096 by
#: default, which would take gigabytes for large bodies.
OPENED_WITH = {"spark.sql.parquet.columnarReaderBatchSize": "128"}
#: Options of a session that starts here. The address keeps Spark from looking up the host's name.
STARTED_WITH = {
    "spark.ui.enabled": "false",
    # Spark's own bar, on a terminal.
    "spark.ui.showConsoleProgress": str(bool(sys.stderr and sys.stderr.isatty())).lower(),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOGGING.as_uri()}",
}


def open_session(
    name: str = "django_mq", *, master: str | None = None, options: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a session with the format ``django_mq``: the running one, or a new one.

    ``options`` are Spark's. Raises SparkUnavailable with one sentence when something is missing.
    """
    preflight.check()
    preflight.check_server(os.environ.get("SPARK_REMOTE", ""))
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    for key, value in {**_starting(master), **(options or {})}.items():
        builder = builder.config(key, value)
    spark = prepare(builder.getOrCreate())
    _set(spark, OPENED_WITH)
    return spark


def _starting(master: str | None) -> dict[str, str]:
    remote = os.environ.get("SPARK_REMOTE", "")
    if "PYSPARK_GATEWAY_PORT" in os.environ or (remote and not remote.startswith("local")):
        return {}  # a Connect server, or spark-submit, is running already, with its own options
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = python_path()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if remote:
        # A local Connect server, too, reads options from its environment only.
        os.environ.setdefault("SPARK_SUBMIT_OPTS", STARTED_WITH["spark.driver.extraJavaOptions"])
        return {}
    handed = {f"spark.executorEnv.{key}": os.environ[key] for key in HANDED_ON if key in os.environ}
    return {"spark.master": master or LOCAL, **STARTED_WITH, **handed}


def python_path() -> str:
    """Return where this process finds the project: other processes do not start in its folder."""
    ours = [str(Path(entry).absolute()) for entry in sys.path if not entry.endswith((".zip", "-packages"))]
    own = [entry for entry in ours if not entry.startswith((sys.base_prefix, sys.prefix))]
    given = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return os.pathsep.join(dict.fromkeys([*given, *own]))


def prepare(spark: SparkSession) -> SparkSession:
    """Register the data source and set the options that it needs."""
    from django_mq.pipeline.source import MessageSource

    spark.dataSource.register(MessageSource)
    _set(spark, NEEDED)
    return spark


def _set(spark: SparkSession, options: Mapping[str, str]) -> None:
    for key, value in options.items():
        spark.conf.set(key, value)


def send_along(spark: SparkSession, *packages: str) -> None:
    """Send Python code that is not installed there to the executors: zips, or single modules.

    Sources registered before do not get it, so the data source is registered again.
    Raises PipelineError for a missing file.
    """
    for package in packages:
        if not Path(package).is_file():
            raise PipelineError(f"There is no file {package} to send along; give a .zip or a .py of this machine.")
    if packages:
        spark.addArtifacts(*packages, pyfile=True)
        prepare(spark)


@contextmanager
def explaining(alias: str = "") -> Iterator[None]:
    """Replace Spark's errors of a hundred lines by a PipelineError of one sentence.

    With an alias, errors of that database become a StoreError.
    """
    try:
        with translating(connections[alias]) if alias else nullcontext():
            yield
    except Exception as error:
        if not _is_of_spark(error):
            raise
        raise PipelineError(sentence(_with_causes(error))) from error


def _is_of_spark(error: BaseException) -> bool:
    packages = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return not packages.isdisjoint({"pyspark", "py4j"}) or isinstance(error, ConnectionError)


def _with_causes(error: BaseException | None) -> str:
    """Return what an error of Spark says, and then each of its causes, as Java writes them."""
    told = []
    while error is not None:
        told.append(JAVA_GONE if isinstance(error, ConnectionError) else str(error))
        error = getattr(error, "_cause", None)
    return f"\n{CAUSE}".join(told)


NO_STORE = (
    "Spark does not know this kind of address: it lacks the jar of the object store (--conf "
    "spark.jars.packages=... or spark.jars=FILE), or the address must have Spark's form, s3a:// for S3."
)
#: What the client of a Java that has ended says.
JAVA_GONE = "Answer from Java side is empty"
#: Parts of Spark's errors, each with its meaning here.
MEANINGS = {
    JAVA_GONE: "Spark's Java process has ended, or cannot be reached. If the system killed it, the memory was too "
    "small.",
    "No module named 'django_mq'": "The executors cannot import django_mq: install it, with Django and the "
    "database's driver, for the Python that PYSPARK_PYTHON names on every worker.",
    "No module named 'django'": "The executors have no Django: install the project's requirements for the Python "
    "that PYSPARK_PYTHON names on every worker.",
    "no such table: django_mq": "The executors find no tables of django_mq: they need the settings of this "
    "process, and what these read from its environment, such as DATABASE_URL, on every worker; and SQLite only "
    "where all of them run on one machine.",
    "unable to open database file": "The executors cannot open the SQLite file: it has to be on their machine.",
    "is not a Parquet file": "A file of the archive is damaged: it is no Parquet file; run mq_spark verify.",
    "PATH_NOT_FOUND": "A directory that should be read does not exist; run mq_spark verify.",
    "No FileSystem for scheme": NO_STORE,
    "FileSystem not found": NO_STORE,
    "No space left on device": "No space is left on a device: that of the archive, or that of Spark's own files "
    "(spark.local.dir). Free space, and start again.",
    "OutOfMemoryError": "Spark has too little memory. Raise it: --conf spark.driver.memory=4g on one machine, "
    "--conf spark.executor.memory=4g on a cluster.",
    "Permission denied": "A directory cannot be written or read: its permissions do not allow it.",
}


TRACEBACK, CAUSE = "Traceback (most recent call last):", "Caused by: "


def sentence(text: str) -> str:
    """Return one sentence for an error of Spark: its meaning, our own error inside it, or its deepest cause."""
    for sign, meaning in MEANINGS.items():
        if sign in text:
            return meaning
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("django_mq.errors.")]
    if own:
        return own[-1].partition(": ")[2]
    python = [line for line in text.partition(TRACEBACK)[2].splitlines() if line and not line[0].isspace()]
    java = [line.partition(CAUSE)[2] for line in lines if line.lstrip().startswith(CAUSE)]
    reason = (python[:1] or java[-1:] or lines[:1] or ["it gave no reason"])[0]
    # The names of Java's packages tell an operator nothing.
    return "Spark failed: " + re.sub(r"^([a-z]\w*[.])+", "", reason.strip())


def examine(spark: SparkSession, alias: str) -> Iterator[str]:
    """Yield a line for each thing that works. Raises PipelineError at the first that does not."""
    from django_mq.pipeline.source import read

    java = preflight.find_java()
    yield ", ".join(f"{name} {version(name)}" for name in preflight.PACKAGES)
    yield f"Java {preflight.java_version(java)} at {java}" if java else "no Java here: Spark runs elsewhere"
    yield f"Spark {spark.version}, master {spark.conf.get('spark.master', 'a Connect server')}"
    with explaining():
        rows = read(spark, using=alias, columns="id").count()
    yield f"the executors reach the database {alias!r}: {rows:,} rows of history"
