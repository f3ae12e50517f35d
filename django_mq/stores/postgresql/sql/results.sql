-- name: write_results. Writes the outcomes of attempts of different tasks, in place of their last ones.
-- Locks: the results' rows, in their order. Index: the primary key. Returns: nothing.
INSERT INTO django_mq_taskresult (
    message_id, successful, queue_name, record, started_at, last_attempted_at, finished_at, expires_at)
SELECT given.*
FROM json_to_recordset(%(rows)s::json) AS given(
    message_id uuid, successful bool, queue_name text, record text, started_at timestamptz,
    last_attempted_at timestamptz, finished_at timestamptz, expires_at timestamptz)
ORDER BY given.message_id
ON CONFLICT (message_id) DO UPDATE SET
    successful = excluded.successful, queue_name = excluded.queue_name, record = excluded.record,
    started_at = excluded.started_at, last_attempted_at = excluded.last_attempted_at,
    finished_at = excluded.finished_at, expires_at = excluded.expires_at
