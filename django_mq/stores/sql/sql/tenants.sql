-- name: _tenant. The tenant of a message by its search keys; NULL without the key, and once for each value of it.
LEFT JOIN django_mq_searchkey k ON k.message_id = {it} AND k.name = %(key)s

-- name: _task_message. The message of a failed attempt of a Celery task, which is written by the task's id.
coalesce(
    (SELECT m.message_id FROM django_mq_message m WHERE m.correlation_id = {it} LIMIT 1),
    (SELECT h.message_id FROM django_mq_history h WHERE h.correlation_id = {it} LIMIT 1))

-- name: _in_sample. Whether a row is in the sample, in which each stands for so many.
{it} %% %(every)s{as:bigint} = 0

-- name: _tenant_ends. What ended in a minute, by queue, tenant, and bucket of the wait.
SELECT queue_name, coalesce(k.value, '') AS tenant, CASE WHEN {is_accepted} THEN {bucket:{wait_ms}} END AS waited,
    count(CASE WHEN outcome = 1 THEN 1 END) AS accepted, 0 AS failed, count(CASE WHEN outcome = 6 THEN 1 END) AS dead,
    sum(CASE WHEN {is_accepted} THEN {wait_ms} ELSE 0 END) AS wait_ms,
    sum(CASE WHEN {is_accepted} THEN {run_ms} ELSE 0 END) AS run_ms
FROM django_mq_history h {tenant:h.message_id}
WHERE finished_at >= %(start)s AND finished_at < %(end)s AND queue_name {in_texts:queues} AND {in_sample:h.id}
GROUP BY queue_name, tenant, waited

-- name: _tenant_failures. What failed in a minute, by queue and tenant.
SELECT a.queue_name, coalesce(k.value, ''), NULL, 0, count(*),
    count(DISTINCT CASE WHEN EXISTS (
        SELECT 1 FROM django_mq_message d
        WHERE d.message_id = a.message_id AND d.state = 3 AND d.dead_at >= %(start)s AND d.dead_at < %(end)s)
        THEN a.message_id END), 0, 0
FROM (
    SELECT f.queue_name, f.message_id, coalesce(f.message_id, {task_message:f.correlation_id}) AS of_message
    FROM django_mq_attempt f
    WHERE f.failed_at >= %(start)s AND f.failed_at < %(end)s AND f.queue_name {in_texts:queues} AND {in_sample:f.id}) a
{tenant:a.of_message}
GROUP BY a.queue_name, coalesce(k.value, '')

-- name: _in_each_queue. Their queue, and a blank name: the figures of all queues come beside those of each.
FROM parts CROSS JOIN (SELECT 0 AS of_all UNION ALL SELECT 1) every

-- name: _queue_or_all
CASE WHEN of_all = 1 THEN '' ELSE queue_name END

-- name: _place_by. The place of a tenant in its queue by a measure, as engine.tenants has it. Equals have any order: to
-- compare many names takes seconds.
CASE WHEN sum({it}) > 0 THEN
    row_number() OVER (PARTITION BY {queue_or_all} ORDER BY sum({it}){as:float8} DESC) END

-- name: _most. How many tenants of a queue, or of all, are kept by each measure.
CASE WHEN queue_name = '' THEN %(most)s{as:int} ELSE %(most_of_queue)s{as:int} END

-- name: _kind_of. What a row is about, as engine.tenants has it.
CASE WHEN tenant = '' THEN 3 WHEN {it} THEN 1 ELSE 2 END

-- name: sum_tenants. Sums up by tenant what ended and failed in a minute, or a sample of it: for each queue and for all
-- of them (a blank name), the first tenants by each measure, and the others as one. The queues are those that have the key.
-- Locks: nothing. Index: django_mq_history_pruning, django_mq_attempt_pruning, django_mq_searchkey_message; for tasks of
-- Celery that failed, also django_mq_message_corr and django_mq_history_corr. Returns: queue, kind, tenant, bucket of
-- the wait (of the accepted messages of a tenant), accepted, failed and dead messages, and the sums of waits and runs in
-- milliseconds.
WITH parts AS (
    {tenant_ends}
    UNION ALL
    {tenant_failures}
),
places AS (
    SELECT {queue_or_all} AS queue_name, tenant, {place_by:accepted} AS by_accepted, {place_by:failed} AS by_failed,
        {place_by:dead} AS by_dead, {place_by:wait_ms} AS by_wait, {place_by:run_ms} AS by_run
    {in_each_queue}
    WHERE tenant <> '' GROUP BY {queue_or_all}, tenant
),
kept AS (
    SELECT queue_name AS of_queue, tenant AS name FROM places
    WHERE by_accepted <= {most} OR by_failed <= {most} OR by_dead <= {most} OR by_wait <= {most} OR by_run <= {most}
),
scoped AS (
    SELECT {queue_or_all} AS queue_name, tenant, waited, accepted, failed, dead, wait_ms, run_ms
    {in_each_queue}
)
SELECT queue_name, {kind_of:name IS NOT NULL} AS kind, coalesce(name, ''), CASE WHEN name IS NOT NULL THEN waited END,
    sum(accepted), sum(failed), sum(dead), sum(wait_ms), sum(run_ms)
FROM scoped LEFT JOIN kept ON of_queue = queue_name AND name = tenant
GROUP BY queue_name, {kind_of:name IS NOT NULL}, coalesce(name, ''), CASE WHEN name IS NOT NULL THEN waited END

-- name: count_waiting_tenants. Counts what is ready, scheduled or parked now by tenant: for each queue and for all of
-- them (a blank name), the tenants with the most messages, and the others as one.
-- Locks: nothing. Index: django_mq_searchkey_message. Returns: queue, kind, tenant, messages.
WITH parts AS (
    SELECT q.name AS queue_name, coalesce(k.value, '') AS tenant, count(*) AS number
    FROM django_mq_message m JOIN django_mq_queue q ON q.id = m.queue_id {tenant:m.message_id}
    WHERE m.state IN (0, 1, 7) AND q.name {in_texts:queues}
    GROUP BY q.name, coalesce(k.value, '')
),
placed AS (
    SELECT {queue_or_all} AS queue_name, tenant, sum(number) AS number, {place_by:number} AS by_number
    {in_each_queue}
    GROUP BY {queue_or_all}, tenant
),
told AS (
    SELECT queue_name, {kind_of:by_number <= {most}} AS kind, tenant, number FROM placed
)
SELECT queue_name, kind, CASE WHEN kind = 1 THEN tenant ELSE '' END, sum(number)
FROM told GROUP BY queue_name, kind, CASE WHEN kind = 1 THEN tenant ELSE '' END

-- name: tenant_marks. Reads the steps of a length since a time that are summed up by tenant.
-- Locks: nothing. Index: django_mq_tenantstep_once. Returns: the begin, how many rows of the past it was summed up from,
-- and for how many each row of the sample stands.
SELECT begins_at, counted, every FROM django_mq_tenantstep
WHERE seconds = %(seconds)s AND queue_name = '' AND kind = 0 AND begins_at >= %(since)s

-- name: last_waiting_count. Reads when the waiting messages were counted by tenant, and how many there were.
-- Locks: nothing. Index: django_mq_tenantstep_once. Returns: the time and the number.
SELECT begins_at, waiting FROM django_mq_tenantstep WHERE seconds = 0 AND queue_name = '' AND kind = 0

-- name: other_tenant_keys. Looks for figures of another key: the mark of a step has the key in place of a tenant.
-- Locks: nothing. Index: django_mq_tenantstep_once. Returns: a row if there are some.
SELECT 1 FROM django_mq_tenantstep
WHERE seconds IN (0, 60, 600, 3600, 21600) AND queue_name = '' AND kind = 0 AND tenant <> %(key)s LIMIT 1

-- name: forget_tenants. Deletes all figures by tenant, when another key names the tenants.
-- Locks: all rows. Index: none. Returns: nothing.
DELETE FROM django_mq_tenantstep

-- name: read_tenant_steps. Reads the figures of the steps of a length within a span.
-- Locks: nothing. Index: django_mq_tenantstep_age. Returns: the begin, queue, kind, tenant, accepted, failed and dead
-- messages, the sums of waits and runs in seconds, and the histogram of waits.
SELECT begins_at, queue_name, kind, tenant, accepted, failed, dead, wait_seconds, run_seconds, waits
FROM django_mq_tenantstep
WHERE seconds = %(seconds)s AND begins_at >= %(start)s AND begins_at < %(end)s AND kind > 0

-- name: _insert_tenant_row
INSERT INTO django_mq_tenantstep (
    seconds, begins_at, queue_name, kind, tenant, accepted, failed, dead, waiting, wait_seconds, run_seconds, waits,
    counted, every)
VALUES (
    %(seconds)s, %(start)s, %(queue)s, %(kind)s, %(tenant)s, %(accepted)s, %(failed)s, %(dead)s, %(waiting)s,
    %(wait_seconds)s, %(run_seconds)s, %(waits)s, %(counted)s, %(every)s)

-- name: write_tenant_mark. Writes the row of a step that says that it is known, unless it is there.
-- Locks: the new row; waits for another transaction that writes the same step. Returns: the id if it was not there.
{insert_tenant_row}
{unless_taken:seconds, queue_name, kind, begins_at, tenant}
{returning:id}

-- name: write_tenant_rows. Writes the other rows of a step.
-- Locks: the new rows. Returns: nothing.
{insert_tenant_row}

-- name: forget_tenant_step. Deletes a step that is to be written again.
-- Locks: its rows. Index: django_mq_tenantstep_age. Returns: nothing.
DELETE FROM django_mq_tenantstep WHERE seconds = %(seconds)s AND begins_at = %(start)s

-- name: forget_waiting_tenants. Deletes the last count of what waits by tenant.
-- Locks: its rows. Index: django_mq_tenantstep_age. Returns: nothing.
DELETE FROM django_mq_tenantstep WHERE seconds = 0

-- name: prune_tenant_steps. Deletes the oldest steps of a length.
-- Locks: the rows it deletes, skipping locked ones. Index: django_mq_tenantstep_age. Returns: one row per deleted row.
DELETE FROM django_mq_tenantstep WHERE id {among:
    SELECT id FROM django_mq_tenantstep
    WHERE seconds = %(seconds)s AND begins_at < %(before)s
    ORDER BY begins_at LIMIT %(limit)s}
RETURNING id

-- name: prune_tenants_with_history. Deletes the oldest figures of queues whose history is not kept so long.
-- Locks: the rows it deletes, skipping locked ones. Index: django_mq_tenantstep_age. Returns: one row per deleted row.
DELETE FROM django_mq_tenantstep WHERE id {among:
    SELECT id FROM django_mq_tenantstep
    WHERE seconds = %(seconds)s AND begins_at < %(before)s AND queue_name {in_texts:queues} AND kind > 0
    ORDER BY begins_at LIMIT %(limit)s}
RETURNING id
