-- A ready message as the arbiter sees it: id, priority, whether it is suspect, level, place, size, the live session that
-- its group belongs to, and the group.
m.id, m.priority, CASE WHEN m.suspect THEN 1 ELSE 0 END AS suspect, m.level, m.place, {size_bytes} AS size_bytes,
(SELECT o.session_id
 FROM django_mq_ownership o
 JOIN django_mq_workersession s ON s.id = o.session_id
 WHERE o.queue_id = m.queue_id AND o.group_key = m.group_key
 LIMIT 1) AS owner, m.group_key
