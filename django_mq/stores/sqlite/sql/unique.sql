-- name: take_first_key. Takes a unique key that no row has, or whose message is gone. append_at_once follows in the same
-- transaction.
-- Locks: the database for writing. Index: the digests of django_mq_uniquekey. Returns: the digest; no row when the key is
-- not taken.
INSERT INTO django_mq_uniquekey ({key_columns})
VALUES ({key_values})
{over_stale_key}
RETURNING digest

-- name: take_keys. Takes unique keys that have no row.
-- Locks: the database for writing. Index: the digests of django_mq_uniquekey. Returns: the digests that were taken.
INSERT INTO django_mq_uniquekey ({key_columns})
SELECT value ->> 'digest', value ->> 'label', value ->> 'until', value ->> 'owner', value ->> 'message_id', {now},
    value ->> 'seconds_from_now'
FROM json_each(%(given)s)
WHERE true
ON CONFLICT (digest) DO NOTHING
RETURNING digest
