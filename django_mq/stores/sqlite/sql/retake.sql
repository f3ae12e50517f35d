-- Gives a session back what was taken from it because its deadline had passed, unless the message was claimed,
-- moved, settled or retried since: only then does it carry the token of the session's claim.
-- Locks: the database for writing. Index: the primary key.
-- Returns: the ids, those included that the session holds anyway.
WITH given AS MATERIALIZED (
    SELECT one.value AS id, CAST(claims.key AS INTEGER) AS claim
    FROM json_each(%(held)s) AS claims
    CROSS JOIN json_each(claims.value) AS one
)
UPDATE django_mq_message AS m
SET {taken_back}
FROM given
WHERE m.id = given.id AND m.id IN (SELECT id FROM given)
  AND coalesce(m.session_id, %(session)s) = %(session)s AND abs(m.claim) = given.claim
RETURNING id
