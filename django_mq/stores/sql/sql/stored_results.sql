-- name: store_result. Writes the state and the result of a Celery task, in place of the last ones; but a success
-- stays.
-- Locks: the result's row. Index: task_id. Returns: nothing.
INSERT INTO django_mq_result ({result_columns})
VALUES ({result_values})
{unless_it_succeeded}

-- name: find_result. Reads the result of a Celery task, unless its time is over.
-- Locks: nothing. Index: task_id. Returns: the columns of the result.
SELECT {result_columns} FROM django_mq_result
WHERE task_id = %(task_id)s AND (expires_at IS NULL OR expires_at > %(now)s)

-- name: _result_columns. The columns of a result.
task_id, message_id, status, result, content_type, content_encoding, traceback, children, group_id, parent_id,
name, args, kwargs, worker, queue, retries, stamps, done_at, expires_at

-- name: _result_values. The values of these columns.
%(task_id)s, %(message_id)s, %(status)s, %(result)s, %(content_type)s, %(content_encoding)s, %(traceback)s,
%(children)s, %(group_id)s, %(parent_id)s, %(name)s, %(args)s, %(kwargs)s, %(worker)s, %(queue)s, %(retries)s,
%(stamps)s, %(done_at)s, %(expires_at)s

-- name: _unless_it_succeeded. A result takes the place of the last one, unless that is a success.
ON CONFLICT (task_id) DO UPDATE SET
    message_id = excluded.message_id, status = excluded.status, result = excluded.result,
    content_type = excluded.content_type, content_encoding = excluded.content_encoding,
    traceback = excluded.traceback, children = excluded.children, group_id = excluded.group_id,
    parent_id = excluded.parent_id, name = excluded.name, args = excluded.args, kwargs = excluded.kwargs,
    worker = excluded.worker, queue = excluded.queue, retries = excluded.retries, stamps = excluded.stamps,
    done_at = excluded.done_at, expires_at = excluded.expires_at
WHERE django_mq_result.status <> 'SUCCESS'

-- name: join_chord. Writes that a member of a chord has ended, unless that is written.
-- Locks: the new row. Index: the constraint django_mq_chordmember_once. Returns: one row if it was not there.
INSERT INTO django_mq_chordmember ({member_columns})
VALUES (
    %(group_id)s, %(task_id)s, %(position)s, %(status)s, %(result)s, %(content_type)s, %(content_encoding)s,
    %(expires_at)s)
{unless_taken:group_id, position, task_id} {returning:id}

-- name: lock_chord. Locks a chord that goes on after one more of its members has ended.
-- Locks: the row of the chord. Index: the primary key. Returns: one row if it goes on.
SELECT 1 FROM django_mq_chord c WHERE {goes_on} {for_update}

-- name: count_member. Counts a member of a chord that is locked.
-- Locks: the row of the chord. Index: the primary key. Returns: nothing.
UPDATE django_mq_chord SET counted = counted + 1 WHERE group_id = %(group_id)s

-- name: lock_known_chord. Locks a chord that is not over, and whose body is known.
-- Locks: the row of the chord. Index: the primary key. Returns: one row if there is one.
SELECT 1 FROM django_mq_chord c WHERE c.group_id = %(group_id)s AND c.ended_at IS NULL AND c.body <> '' {for_update}

-- name: count_lost. Counts a member of a chord that is locked, which has failed.
-- Locks: the row of the chord. Index: the primary key. Returns: nothing.
UPDATE django_mq_chord SET counted = counted + 1, failed = failed + 1 WHERE group_id = %(group_id)s

-- name: chord_count. Reads what decides of the end of a chord.
-- Locks: nothing. Index: the primary key. Returns: members, added, ended, failed.
SELECT size, added, counted, failed FROM django_mq_chord WHERE group_id = %(group_id)s

-- name: end_chord_later. Lets a worker end a chord, as that of a process that has died.
-- Locks: the row of the chord. Index: the primary key. Returns: nothing.
UPDATE django_mq_chord SET ended_at = {now}, carried_until = {now} WHERE group_id = %(group_id)s

-- name: _goes_on. A chord that is not over, that one more member does not end, and that is kept for long enough.
c.group_id = %(group_id)s AND c.ended_at IS NULL AND c.counted + 1 < c.size + c.added
AND (c.expires_at IS NULL OR c.expires_at >= %(keep_until)s)

-- name: _member_columns. The columns of a member of a chord.
group_id, task_id, position, status, result, content_type, content_encoding, expires_at

-- name: add_roster. Keeps members of a chord that are published.
-- Locks: the new row. Returns: nothing.
INSERT INTO django_mq_chordroster (group_id, members, suspects, looked_at)
VALUES (%(group_id)s, %(members)s, '', {now})
