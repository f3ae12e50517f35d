-- Reads as walk.sql does, but for the messages of groups that must wait or, unless there are rivals that could
-- take them, belong to other live sessions.
-- Locks: nothing; whoever asks has the turn. Index: django_mq_message_ready, and django_mq_ownership_group for
-- each that it passes.
-- Returns: as walk.sql, and the session that the group belongs to, null if to none.
SELECT m.id, m.priority, m.suspect, m.group_key, m.level, m.place, length(m.body),
    (SELECT o.session_id
     FROM django_mq_ownership o
     JOIN django_mq_workersession s ON s.id = o.session_id
     WHERE o.queue_id = m.queue_id AND o.group_key = m.group_key
     LIMIT 1)
FROM django_mq_message m
WHERE m.state = 1 AND m.queue_id = %(queue_id)s AND {beyond}
  AND (m.group_key IS NULL OR (
      m.group_key NOT IN (SELECT value FROM json_each(%(busy)s))
      AND (%(rivals)s OR NOT EXISTS (
          SELECT 1
          FROM django_mq_ownership o
          JOIN django_mq_workersession s ON s.id = o.session_id
          WHERE o.queue_id = m.queue_id AND o.group_key = m.group_key AND o.session_id <> %(session)s))))
ORDER BY m.level DESC, m.place, m.id
LIMIT %(limit)s
