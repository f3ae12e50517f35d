-- Gives claimed messages back to their places, at once or after a delay.
-- Locks: the database for writing. Index: the primary key. Fenced by session and claim token.
-- Returns: the ids that were still held.
UPDATE django_mq_message AS m
SET state = CASE WHEN given.delay_seconds > 0 THEN 0 ELSE 1 END,
    deliver_at = CASE WHEN given.delay_seconds > 0 THEN given.later ELSE m.deliver_at END,
    attempts = {counted},
    suspect = m.suspect AND NOT given.counted,
    redelivered = 1, session_id = NULL, claim = NULL, claimed_at = NULL
FROM (
    SELECT
        json_extract(value, '$.ids') AS id, json_extract(value, '$.claims') AS claim,
        json_extract(value, '$.delay_seconds') AS delay_seconds,
        json_extract(value, '$.delay_seconds_from_now') AS later,
        json_extract(value, '$.counted') AS counted
    FROM json_each(%(given)s)
) given
WHERE m.id = given.id AND m.state = 2 AND m.session_id = %(session)s AND m.claim = given.claim
RETURNING id
