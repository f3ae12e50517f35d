-- name: _constrained
SELECT
    id, max_messages, max_bytes, overflow, last_value_key, {sends_dropped}, held_messages, held_bytes,
    coalesce(counted_at > {ago:1 minute}, false)
FROM django_mq_queue q
WHERE q.name = %(queue)s AND {locks_publishers}
FOR UPDATE {it}
