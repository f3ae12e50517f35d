"""A stream from the history into a queue: it ends when it has published what was there when it began.

Arguments: the checkpoint, the queue, rows of a batch.
"""

from __future__ import annotations

import sys


def main(checkpoint: str, queue: str, rows: str) -> None:
    """Follow the history."""
    import django

    django.setup()
    from django_mq.pipeline.session import open_session

    spark = open_session("following", master="local[2]", options={"spark.sql.shuffle.partitions": "2"})
    history = spark.readStream.format("django_mq").option("max_rows", rows).option("partitions", "2").load()
    messages = history.selectExpr(f"'{queue}' queue", "to_json(struct(id)) body")
    writer = messages.writeStream.format("django_mq").option("job", "following")
    query = writer.option("checkpointLocation", checkpoint).start()
    query.processAllAvailable()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
