SELECT
    id, max_messages, max_bytes, overflow, last_value_key, held_messages, held_bytes,
    coalesce(counted_at > {now} - interval '1 minute', false)
FROM django_mq_queue
WHERE name = %(queue)s AND (max_messages IS NOT NULL OR max_bytes IS NOT NULL OR last_value_key <> '')
FOR UPDATE
