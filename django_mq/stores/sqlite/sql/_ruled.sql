UPDATE django_mq_queue SET name = name
WHERE name = %(queue)s AND (max_messages IS NOT NULL OR max_bytes IS NOT NULL OR last_value_key <> '')
RETURNING
    id, max_messages, max_bytes, overflow, last_value_key, held_messages, held_bytes,
    coalesce(counted_at > datetime({now}, '-1 minute'), 0)
