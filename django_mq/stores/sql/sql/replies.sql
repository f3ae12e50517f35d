-- name: keep_result. Writes how a message has ended, and what its handler has returned, in place of what is there: a
-- dead letter has a result already, and so has a message with copies in several queues.
-- Locks: the row of the result. Index: the primary key. Returns: nothing.
INSERT INTO django_mq_messageresult ({reply_columns})
VALUES ({reply_values})
ON CONFLICT (message_id) DO UPDATE SET
    queue_name = excluded.queue_name, status = excluded.status, value = excluded.value,
    content_encoding = excluded.content_encoding, finished_at = excluded.finished_at, expires_at = excluded.expires_at

-- name: find_kept_result. Reads the result of a message, unless its time is over.
-- Locks: nothing. Index: the primary key. Returns: its columns but the id and the queue.
SELECT status, value, content_encoding, finished_at, expires_at FROM django_mq_messageresult
WHERE message_id = %(message_id)s AND expires_at > %(now)s

-- name: _reply_columns. The columns of the result of a message.
message_id, queue_name, status, value, content_encoding, finished_at, expires_at

-- name: _reply_values. The values of these columns.
%(message_id)s, %(queue)s, %(status)s, %(value)s, %(content_encoding)s, %(finished_at)s, %(expires_at)s
