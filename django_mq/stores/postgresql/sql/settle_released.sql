-- Gives claimed messages back to their places, at once or after a delay.
-- Locks: the rows it changes. Index: the primary key. Fenced by session and claim token,
-- which only a claimed row has; to ask for the state as well would invite the planner to walk the
-- index of claimed rows, which is full of dead entries.
-- Returns: the ids that were still held.
UPDATE django_mq_message m
SET state = CASE WHEN given.delay_seconds > 0 THEN 0 ELSE 1 END,
    deliver_at = CASE WHEN given.delay_seconds > 0
                      THEN {now} + given.delay_seconds * interval '1 second' ELSE m.deliver_at END,
    attempts = {counted},
    suspect = m.suspect AND NOT given.counted,
    redelivered = true, session_id = NULL, claim = NULL, claimed_at = NULL
FROM unnest(%(ids)s::bigint[], %(claims)s::bigint[], %(delay_seconds)s::float8[], %(counted)s::bool[])
    AS given(id, claim, delay_seconds, counted)
WHERE m.id = ANY(%(ids)s::bigint[])
  AND m.id = given.id AND m.session_id = %(session)s AND m.claim = given.claim
RETURNING m.id
