-- name: write_result. Writes the outcome of a task's attempt, in place of the last one.
-- Locks: the result's row. Index: the primary key. Returns: one row, or two where it replaces one.
INSERT INTO django_mq_taskresult (
    message_id, successful, queue_name, record, started_at, last_attempted_at, finished_at, expires_at)
VALUES (
    %(message_id)s, %(successful)s, %(queue_name)s, %(record)s, %(started_at)s, %(last_attempted_at)s, %(finished_at)s,
    %(expires_at)s)
ON DUPLICATE KEY UPDATE
    successful = %(successful)s, queue_name = %(queue_name)s, record = %(record)s,
    started_at = %(started_at)s, last_attempted_at = %(last_attempted_at)s,
    finished_at = %(finished_at)s, expires_at = %(expires_at)s
