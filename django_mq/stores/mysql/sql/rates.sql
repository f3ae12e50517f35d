-- name: use_rate. Writes what a key of a limit has used.
-- Locks: the key's row; the claim lock is held. Index: django_mq_limitkey_once. Returns: nothing that is used.
INSERT INTO django_mq_limitkey (queue_name, limit_name, limited_key, free_at, seen_at)
VALUES (%(queue)s, %(limit_name)s, %(limited_key)s, %(free_at)s, %(seen_at)s)
ON DUPLICATE KEY UPDATE free_at = %(free_at)s, seen_at = %(seen_at)s

-- name: prune_rates. Deletes keys of which everything has been free for a minute.
-- Locks: the rows it deletes. No index: the table is small. Returns: one row per deleted row.
DELETE FROM django_mq_limitkey WHERE free_at < {seconds_now} - 60 LIMIT %(limit)s

-- name: prune_holds. Deletes holds that are over.
-- Locks: the rows it deletes. No index: the table is small. Returns: one row per deleted row.
DELETE FROM django_mq_limithold WHERE held_until < {seconds_now} LIMIT %(limit)s
