-- name: limit_lock_waits. Limits the waits for locks of this connection.
-- Locks: nothing. Index: none. Returns: nothing.
SET @lock_wait_before = @@innodb_lock_wait_timeout, innodb_lock_wait_timeout = %(seconds)s

-- name: restore_lock_waits. Sets the limit of waits for locks again that was before.
-- Locks: nothing. Index: none. Returns: nothing.
SET innodb_lock_wait_timeout = @lock_wait_before

-- name: take_key. Takes a unique key, unless it has a row, and locks the row. An INSERT that is refused would lock it
-- for reading only: of two that wait, neither could go on.
-- Locks: the row; waits for another transaction that takes the same key. Index: the digests of
-- django_mq_uniquekey. Returns: one row.
INSERT INTO django_mq_uniquekey (digest, label, until, owner, message_id, first_at, ends_at)
VALUES (%(digest)s, %(label)s, %(until)s, %(owner)s, %(message_id)s, {now}, {ahead:seconds})
ON DUPLICATE KEY UPDATE digest = digest

-- name: taker_of. Asks which message took a unique key.
-- Locks: nothing. Index: the digests of django_mq_uniquekey. Returns: the message id; no row if the key has none.
SELECT message_id FROM django_mq_uniquekey WHERE digest = %(digest)s
