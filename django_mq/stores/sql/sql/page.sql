-- Reads a further page of a queue's ready messages in delivery order, beyond the last one and without some groups.
-- Locks: nothing; the claim lock is held. Index: django_mq_message_ready, and django_mq_ownership_group for each message.
-- Returns: id, priority, whether it is suspect, level, place, size, the live session that its group belongs to, and the group.
SELECT {candidate}
FROM django_mq_message m {by_state}
WHERE m.state = 1 AND m.queue_id = %(queue_id)s
  AND m.level <= %(level)s AND (m.level < %(level)s OR (m.place, m.id) > (%(place)s, %(after)s)) AND {in_other_groups}
ORDER BY m.level DESC, m.place, m.id
LIMIT %(limit)s
