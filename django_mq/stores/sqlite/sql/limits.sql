-- name: _constrained
UPDATE django_mq_queue AS q SET name = name
WHERE q.name = %(queue)s AND {locks_publishers}
RETURNING
    id, max_messages, max_bytes, overflow, last_value_key, {sends_dropped}, held_messages, held_bytes,
    coalesce(counted_at > datetime({now}, '-1 minute'), 0)
