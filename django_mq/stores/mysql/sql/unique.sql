-- name: limit_lock_waits. Limits the waits for locks of this connection.
-- Locks: nothing. Index: none. Returns: nothing.
SET @lock_wait_before = @@innodb_lock_wait_timeout, innodb_lock_wait_timeout = %(wait_seconds)s

-- name: restore_lock_waits. Sets the limit of waits for locks again that was before.
-- Locks: nothing. Index: none. Returns: nothing.
SET innodb_lock_wait_timeout = @lock_wait_before

-- name: take_key. Takes a unique key, unless it has a row, and locks the row. An INSERT that is refused would lock it
-- for reading only: of two that wait, neither could go on.
-- Locks: the row; waits for another transaction that takes the same key. Index: the digests of
-- django_mq_uniquekey. Returns: 1 if the key had a row, else 0.
INSERT INTO django_mq_uniquekey ({key_columns})
VALUES ({key_values})
ON DUPLICATE KEY UPDATE digest = IF(LAST_INSERT_ID(1), digest, digest)

-- name: take_first_key. The same for a message to a queue that is open.
-- Locks: as take_key. Index: as take_key, and the unique name of django_mq_queue. Returns: one row, or none.
INSERT INTO django_mq_uniquekey ({key_columns})
SELECT {key_values} FROM django_mq_queue q WHERE q.name = %(queue_name)s AND NOT q.closed
ON DUPLICATE KEY UPDATE digest = django_mq_uniquekey.digest

-- name: take_over_key. Takes over the row of a key that no message has any longer; take_first_key has locked it. It sees
-- what was committed while that waited.
-- Locks: the row it changes. Index: the digests of django_mq_uniquekey, django_mq_message_once and
-- django_mq_run_message. Returns: one row if it was taken over.
UPDATE django_mq_uniquekey
SET label = %(label)s, until = %(until)s, owner = %(owner)s, message_id = %(message_id)s, first_at = {now},
    ends_at = {ahead:seconds}
WHERE digest = %(digest)s AND message_id <> %(message_id)s AND {is_stale:django_mq_uniquekey}

-- name: append_keyed. Writes one message, as append does, if it has its unique key; take_first_key has run.
-- Locks: as append. Index: as append, and the digests of django_mq_uniquekey. Returns: the id; no row when the message has
-- not its key, or the queue is unknown or closed. A message id that is taken is an error.
{write: AND EXISTS (
    SELECT 1 FROM django_mq_uniquekey k WHERE k.digest = %(digest)s AND k.message_id = %(message_id)s)}

-- name: take_keys. Takes unique keys in the order of a JSON document, as take_key does.
-- Locks: the rows; waits for other transactions that take the same keys. Index: the digests of django_mq_uniquekey.
-- Returns: one row or more.
INSERT INTO django_mq_uniquekey ({key_columns})
SELECT u.digest, u.label, u.until, u.owner, u.message_id, {now}, {after:u.seconds}
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (
    ordinal FOR ORDINALITY,
    digest VARCHAR(64) PATH '$.digest',
    label LONGTEXT CHARACTER SET utf8mb4 PATH '$.label',
    until VARCHAR(20) PATH '$.until',
    owner LONGTEXT CHARACTER SET utf8mb4 PATH '$.owner',
    message_id VARCHAR(36) PATH '$.message_id',
    seconds DOUBLE PATH '$.seconds'
)) AS u
ORDER BY u.ordinal
ON DUPLICATE KEY UPDATE digest = django_mq_uniquekey.digest

-- name: takers_of. Asks which messages took unique keys.
-- Locks: nothing. Index: the digests of django_mq_uniquekey. Returns: digest and message id of each that is taken.
SELECT digest, message_id FROM django_mq_uniquekey WHERE digest IN %(digests)s
