-- Locks messages that nobody holds, of some states, all or those with a reason.
-- Locks: the rows it returns, skipping locked ones. Index: the primary key.
-- Returns: id and priority, in delivery order of each queue.
SELECT id, priority FROM django_mq_message
WHERE id IN %(ids)s AND state IN %(states)s AND (%(reason)s IS NULL OR dead_reason = %(reason)s)
ORDER BY level DESC, place, id
FOR UPDATE SKIP LOCKED
