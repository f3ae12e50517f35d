-- Locks messages that a session claimed. Fenced by the session, which only a claimed row has; the
-- caller compares the claim tokens.
-- Locks: the rows it returns. Index: the primary key.
-- Returns: id and claim token.
SELECT id, claim FROM django_mq_message FORCE INDEX (PRIMARY)
WHERE id IN %(ids)s AND session_id = %(session)s
ORDER BY id
FOR UPDATE
