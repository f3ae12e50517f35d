-- Locks those of the chosen messages that are still ready; claim_chosen.sql takes them.
-- Locks: the rows it returns, skipping locked ones. Index: the primary key.
-- Returns: their ids, in no order.
SELECT m.id FROM django_mq_message m WHERE m.id IN %(ids)s AND m.state = 1
FOR UPDATE SKIP LOCKED
