-- Remembers one failed attempt reported apart from its settlement.
-- Locks: the new row.
-- Returns: nothing.
INSERT INTO django_mq_attempt (
    message_id, correlation_id, queue_name, type, number, failed_at, worker, error, detail, traceback)
VALUES (%(message_id)s, %(correlation_id)s, %(queue_name)s, %(type)s, %(number)s, {now}, %(worker)s,
        %(error)s, %(detail)s, %(traceback)s)
