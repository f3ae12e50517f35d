-- name: _bucket. The bucket of a duration in milliseconds, as engine.histograms has it: eight to a doubling. What is added
-- keeps a power of two from falling short of its bucket.
floor(ln(greatest({it}, 1)) * 11.541560327111707 + 1e-9)
-- name: _wait_ms
greatest(timestampdiff(MICROSECOND, ready_at, claimed_at) / 1000, 0)
-- name: _run_ms
greatest(timestampdiff(MICROSECOND, claimed_at, finished_at) / 1000, 0)

-- name: prune_steps. Deletes the oldest steps of a length.
-- Locks: the rows it deletes. Index: django_mq_rollupstep_once. Returns: one row per deleted row.
DELETE FROM django_mq_rollupstep WHERE seconds = %(seconds)s AND begins_at < %(before)s ORDER BY begins_at LIMIT %(limit)s

-- name: prune_minutes. Deletes the oldest minutes from the table of earlier releases, whose workers write to it.
-- Locks: the rows it deletes. Index: django_mq_rollup_once. Returns: one row per deleted row.
DELETE FROM django_mq_rollup WHERE minute < %(before)s ORDER BY minute LIMIT %(limit)s
