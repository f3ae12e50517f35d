-- Reads ready messages of one queue in delivery order, those beyond a given position.
-- Locks: nothing; whoever asks has the turn. Index: django_mq_message_ready.
-- Returns: id, priority, whether it is suspect, group key, level, place and size, in delivery order.
SELECT m.id, m.priority, m.suspect, m.group_key, m.level, m.place, octet_length(m.body)
FROM django_mq_message m
WHERE m.state = 1 AND m.queue_id = %(queue_id)s AND {beyond}
ORDER BY m.level DESC, m.place, m.id
LIMIT %(limit)s
