-- name: write_result. Writes the outcome of a task's attempt, in place of the last one.
-- Locks: the result's row. Index: the primary key. Returns: nothing.
INSERT INTO django_mq_taskresult (
    message_id, successful, queue_name, record, started_at, last_attempted_at, finished_at, expires_at)
VALUES (
    %(message_id)s, %(successful)s, %(queue_name)s, %(record)s, %(started_at)s, %(last_attempted_at)s, %(finished_at)s,
    %(expires_at)s)
ON CONFLICT (message_id) DO UPDATE SET
    successful = excluded.successful, queue_name = excluded.queue_name, record = excluded.record,
    started_at = excluded.started_at, last_attempted_at = excluded.last_attempted_at,
    finished_at = excluded.finished_at, expires_at = excluded.expires_at

-- name: write_result_of_removed. Writes that a task's message was removed before its first attempt ended, unless the
-- result is there.
-- Locks: the new row. Index: the primary key. Returns: one row if it was not there.
INSERT INTO django_mq_taskresult (
    message_id, successful, queue_name, record, started_at, last_attempted_at, finished_at, expires_at)
VALUES (%(message_id)s, false, %(queue_name)s, %(record)s, NULL, NULL, %(finished_at)s, %(expires_at)s)
{unless_taken:message_id} {returning:message_id}
