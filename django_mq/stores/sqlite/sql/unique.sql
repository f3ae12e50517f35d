-- name: take_first_key. Takes a unique key that no row has, or whose message is gone. append_at_once follows in the same
-- transaction.
-- Locks: the database for writing. Index: the digests of django_mq_uniquekey. Returns: the digest; no row when the key is
-- not taken.
INSERT INTO django_mq_uniquekey ({key_columns})
VALUES ({key_values})
{over_stale_key}
RETURNING digest
