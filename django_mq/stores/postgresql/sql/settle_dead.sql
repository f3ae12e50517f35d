-- Marks claimed messages dead, in place.
-- Locks: the rows it changes. Index: the primary key. Fenced by session and claim token,
-- which only a claimed row has; to ask for the state as well would invite the planner to walk the
-- index of claimed rows, which is full of dead entries.
-- Returns: the ids that were still held.
UPDATE django_mq_message m
SET state = 3, dead_reason = given.reason, dead_at = {now},
    attempts = {counted},
    suspect = false, session_id = NULL, claim = NULL, claimed_at = NULL
FROM unnest(%(ids)s::bigint[], %(claims)s::bigint[], %(reasons)s::text[], %(counted)s::bool[])
    AS given(id, claim, reason, counted)
WHERE m.id = given.id AND m.session_id = %(session)s AND m.claim = given.claim
RETURNING m.id
