-- Gives a session back what was taken from it because its deadline had passed, unless the message was claimed,
-- moved, settled or retried since: only then does it carry the token of the session's claim.
-- Locks: the rows it changes. Index: the primary key.
-- Returns: the ids, those included that the session holds anyway.
UPDATE django_mq_message m
SET {taken_back}
FROM unnest(%(ids)s::bigint[], %(claims)s::bigint[]) AS given(id, claim)
WHERE m.id = ANY(%(ids)s::bigint[]) AND m.id = given.id
  AND coalesce(m.session_id, %(session)s) = %(session)s AND abs(m.claim) = given.claim
RETURNING m.id
