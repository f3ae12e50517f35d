-- name: store_and_count. Counts a member of a chord that has ended, and writes its result. Does nothing if the member
-- was counted before, or would end the chord. Of two runs of a member that end together, one has a unique violation.
-- Locks: the rows of the chord and of the result, the new row. Index: the primary key of the chord, task_id,
-- django_mq_chordmember_once. Returns: one row if the member was counted.
WITH counted AS (
    UPDATE django_mq_chord c SET counted = c.counted + 1
    WHERE {goes_on} AND NOT EXISTS (
        SELECT FROM django_mq_chordmember m
        WHERE m.group_id = %(group_id)s AND m.position = %(position)s AND m.task_id = %(task_id)s)
    RETURNING 1
), joined AS (
    INSERT INTO django_mq_chordmember ({member_columns})
    SELECT %(group_id)s, %(task_id)s, %(position)s, %(status)s, %(member_result)s, %(content_type)s,
        %(content_encoding)s, %(chord_expires_at)s
    FROM counted
), stored AS (
    INSERT INTO django_mq_result ({result_columns})
    SELECT {result_values} FROM counted WHERE %(is_kept)s
    {unless_it_succeeded}
)
SELECT 1 FROM counted
