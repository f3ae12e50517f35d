-- name: keep_result. Writes how a message has ended, and what its handler has returned, in place of what is there: a
-- dead letter has a result already, and so has a message with copies in several queues.
-- Locks: the row of the result. Index: the primary key. Returns: one row, or two where it replaces one.
INSERT INTO django_mq_messageresult ({reply_columns})
VALUES ({reply_values})
ON DUPLICATE KEY UPDATE
    queue_name = VALUES(queue_name), status = VALUES(status), value = VALUES(value),
    content_encoding = VALUES(content_encoding), finished_at = VALUES(finished_at), expires_at = VALUES(expires_at)
