"""Archive, figures, and a load, in one session whose executors are sent the app as a zip.

For spark-submit, and for a client of Spark Connect. Arguments: the database's alias, the archive's root, the zip.
What happened is printed as JSON in the last line.
"""

from __future__ import annotations

import json
import sys
from datetime import date, timedelta


def main(alias: str, root: str, package: str) -> None:
    """Go the whole way."""
    import django

    django.setup()
    from django_mq.errors import PipelineError
    from django_mq.pipeline.archive.job import archive
    from django_mq.pipeline.archive.reader import archived, verify
    from django_mq.pipeline.insights.job import compute
    from django_mq.pipeline.publisher import publish_frame
    from django_mq.pipeline.session import explaining, open_session, send_along
    from django_mq.pipeline.source import read

    spark = open_session("whole way")
    said: dict[str, object] = {"master": spark.conf.get("spark.master")}
    try:
        with explaining():
            read(spark, using=alias, columns="id").count()
    except PipelineError as error:
        said["without the app"] = str(error)
    send_along(spark, package)
    day = date(2026, 3, 2)
    said["figures"] = compute(spark, alias, day, day)
    done = archive(lambda: spark, alias, root, older_than=timedelta(0))
    said["archived"] = [done.rows, done.deleted]
    said["faults"] = [faults for _, faults in verify(spark, alias)]
    frame = archived(spark, alias).selectExpr("'replayed' queue", "to_json(struct(id n)) body")
    once, again = (publish_frame(frame, "cluster", alias, part_rows=500) for _ in range(2))
    said["published"] = [once.now, again.now]
    spark.stop()
    sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
