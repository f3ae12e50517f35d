-- Gives a session a group of a queue, or, without a group, a seat in it, unless it has it already.
-- Locks: the new row. Index: django_mq_ownership_group.
-- Returns: nothing that is used.
INSERT INTO django_mq_ownership (queue_id, group_key, session_id)
SELECT %(queue_id)s, %(group)s, %(session)s FROM DUAL
WHERE NOT EXISTS (
    SELECT 1 FROM django_mq_ownership o
    WHERE o.queue_id = %(queue_id)s AND o.group_key <=> %(group)s AND o.session_id = %(session)s)
