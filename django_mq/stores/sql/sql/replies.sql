-- name: forget_result. Deletes the result of a message: it has one already if it was a dead letter, or if it has copies
-- in several queues.
-- Locks: the row of the result. Index: the primary key. Returns: nothing.
DELETE FROM django_mq_messageresult WHERE message_id = %(message_id)s

-- name: keep_result. Writes how a message has ended, and what its handler has returned.
-- Locks: the new row. Index: the primary key. Returns: nothing.
INSERT INTO django_mq_messageresult (
    message_id, queue_name, status, value, content_encoding, finished_at, expires_at)
VALUES (
    %(message_id)s, %(queue)s, %(status)s, %(value)s, %(content_encoding)s, %(finished_at)s, %(expires_at)s)
