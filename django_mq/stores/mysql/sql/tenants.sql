-- name: prune_tenant_steps. Deletes the oldest steps of a length.
-- Locks: the rows it deletes. Index: django_mq_tenantstep_age. Returns: one row per deleted row.
DELETE FROM django_mq_tenantstep WHERE seconds = %(seconds)s AND begins_at < %(before)s ORDER BY begins_at LIMIT %(limit)s

-- name: prune_tenants_with_history. Deletes the oldest figures of queues whose history is not kept so long.
-- Locks: the rows it deletes. Index: django_mq_tenantstep_age. Returns: one row per deleted row.
DELETE FROM django_mq_tenantstep
WHERE seconds = %(seconds)s AND begins_at < %(before)s AND queue_name {in_texts:queues} AND kind > 0
ORDER BY begins_at LIMIT %(limit)s
