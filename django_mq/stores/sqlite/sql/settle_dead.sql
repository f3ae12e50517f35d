-- Marks claimed messages dead, in place.
-- Locks: the database for writing. Index: the primary key. Fenced by session and claim token.
-- Returns: the ids that were still held.
UPDATE django_mq_message AS m
SET state = 3, dead_reason = given.reason, dead_at = {now},
    attempts = {counted},
    suspect = 0, session_id = NULL, claim = NULL, claimed_at = NULL
FROM (
    SELECT
        json_extract(value, '$.ids') AS id, json_extract(value, '$.claims') AS claim,
        json_extract(value, '$.reasons') AS reason, json_extract(value, '$.counted') AS counted
    FROM json_each(%(given)s)
) given
WHERE m.id = given.id AND m.state = 2 AND m.session_id = %(session)s AND m.claim = given.claim
RETURNING id
