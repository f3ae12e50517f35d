-- name: take_key. Takes a unique key that no row has.
-- Locks: the new row; waits for another transaction that takes the same key. Index: the digests of
-- django_mq_uniquekey. Returns: the digest; no row if the key has a row.
INSERT INTO django_mq_uniquekey (digest, label, until, owner, message_id, first_at, ends_at)
VALUES (%(digest)s, %(label)s, %(until)s, %(owner)s, %(message_id)s, {now}, {ahead:seconds})
{unless_taken:digest}
{returning:digest}

-- name: _key_columns
digest, label, until, owner, message_id, first_at, ends_at
-- name: _key_values
%(digest)s, %(label)s, %(until)s, %(owner)s, %(message_id)s, {now}, {ahead:seconds}
-- name: _over_stale_key. Takes over the row of a key that no message has any longer.
ON CONFLICT (digest) DO UPDATE
SET label = excluded.label, until = excluded.until, owner = excluded.owner, message_id = excluded.message_id,
    first_at = excluded.first_at, ends_at = excluded.ends_at
WHERE {is_stale:django_mq_uniquekey}

-- name: key_of. Finds the message that took a unique key.
-- Locks: the row. Index: the digests of django_mq_uniquekey. Returns: message id, owner, until, first_at,
-- ends_at, and the time now; no row if the key has none.
SELECT message_id, owner, until, first_at, ends_at, {now} FROM django_mq_uniquekey WHERE digest = %(digest)s {for_update}

-- name: lock_waiting_holder. Finds a message that waits and has a key. Claims pass it until the commit.
-- Locks: the rows it finds. Index: django_mq_message_once. Returns: id, state, the reason of a dead letter, whether it
-- has run, and whether it has expired.
SELECT {key_holder} AND state IN (0, 1, 7) {for_update}

-- name: key_holders. Finds a message that has a key, in any state, or a run that goes on after its message is gone.
-- Locks: nothing. Index: django_mq_message_once, django_mq_run_message. Returns: as lock_waiting_holder; a run is claimed.
SELECT {key_holder}
UNION ALL
SELECT r.id, 2, '', (0 = 0), (0 = 1) FROM django_mq_run r WHERE r.message_id = %(message_id)s

-- name: _key_holder
id, state, dead_reason, (redelivered OR attempts > 0), (expires_at IS NOT NULL AND expires_at <= {now})
FROM django_mq_message WHERE message_id = %(message_id)s

-- name: give_key. Gives a unique key to another message.
-- Locks: the row it changes. Index: the digests of django_mq_uniquekey. Returns: one row.
UPDATE django_mq_uniquekey
SET label = %(label)s, until = %(until)s, owner = %(owner)s, message_id = %(message_id)s, first_at = {now},
    ends_at = {ahead:seconds}
WHERE digest = %(digest)s
{returning:digest}

-- name: continue_key. Notes the message that continues the work of the one with a unique key.
-- Locks: the row it changes. Index: the digests of django_mq_uniquekey. Returns: one row.
UPDATE django_mq_uniquekey SET message_id = %(message_id)s WHERE digest = %(digest)s {returning:digest}

-- name: take_back_key. Deletes the unique key of a message that was not written.
-- Locks: the row it deletes. Index: the digests of django_mq_uniquekey. Returns: one row if it was there.
DELETE FROM django_mq_uniquekey WHERE digest = %(digest)s AND message_id = %(message_id)s {returning:digest}

-- name: free_key. Deletes a unique key, whichever message has it.
-- Locks: the row it deletes. Index: the digests of django_mq_uniquekey. Returns: one row if it was there.
DELETE FROM django_mq_uniquekey WHERE digest = %(digest)s {returning:digest}

-- name: replace_body. Gives a waiting message another body, and its type. It is to be asked again what it meets: a
-- selector may name its type and its size.
-- Locks: the row it changes. Index: the primary key. Returns: one row.
UPDATE django_mq_message
SET body = %(body)s, type = %(type)s, content_type = %(content_type)s, content_encoding = %(content_encoding)s,
    meets = CASE WHEN meets IS NOT NULL THEN 0 END
WHERE id = %(id)s AND state IN (0, 1, 7)
{returning:id}

-- name: _is_stale. Whether no message has this key any longer, and no run that goes on after it.
({it}.ends_at <= {now} OR ({it}.ends_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM django_mq_message m WHERE m.message_id = {it}.message_id
) AND NOT EXISTS (SELECT 1 FROM django_mq_run r WHERE r.message_id = {it}.message_id)))

-- name: stale_keys. Looks at so many unique keys, from a digest on, and finds those that no message has any longer.
-- Locks: nothing. Index: the digests of django_mq_uniquekey, and django_mq_message_once for each row. Returns: digests.
SELECT k.digest FROM (
    SELECT digest, message_id, ends_at FROM django_mq_uniquekey WHERE digest >= %(start)s ORDER BY digest LIMIT %(most)s
) k WHERE {is_stale:k} LIMIT %(limit)s

-- name: lock_keys. Locks unique keys.
-- Locks: the rows it finds; skips locked ones. Index: the digests of django_mq_uniquekey. Returns: digests.
SELECT digest FROM django_mq_uniquekey WHERE digest {in_texts:digests} {skip_locked}

-- name: drop_stale_keys. Deletes those that are stale still.
-- Locks: the rows it deletes. Index: the digests of django_mq_uniquekey. Returns: one row per deleted row.
DELETE FROM django_mq_uniquekey WHERE digest {in_texts:digests} AND {is_stale:django_mq_uniquekey} {returning:digest}
