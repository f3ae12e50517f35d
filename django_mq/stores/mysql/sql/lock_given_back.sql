-- Locks messages that were taken from a session because its deadline had passed, and those that it holds; the
-- caller compares the claim tokens, without their signs. Claimed, moved, settled or retried since, a message
-- has lost its token.
-- Locks: the rows it returns. Index: the primary key.
-- Returns: id and claim token.
SELECT id, abs(claim) FROM django_mq_message FORCE INDEX (PRIMARY)
WHERE id IN %(ids)s AND coalesce(session_id, %(session)s) = %(session)s AND claim IS NOT NULL
ORDER BY id
FOR UPDATE
