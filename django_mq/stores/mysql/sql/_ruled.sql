-- Locks the row alone: its entry in the index of names is what publishers share, see append.sql.
SELECT
    id, max_messages, max_bytes, overflow, last_value_key, held_messages, held_bytes,
    coalesce(counted_at > {now} - INTERVAL 1 MINUTE, false)
FROM django_mq_queue
WHERE id = (
    SELECT q.id FROM django_mq_queue q
    WHERE q.name = %(queue)s AND {has_publish_rules})
FOR UPDATE
