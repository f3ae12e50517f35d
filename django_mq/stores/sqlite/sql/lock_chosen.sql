-- Locks those of the chosen messages that are still ready; claim_chosen.sql takes them.
-- Locks: nothing; runs inside the write transaction. Index: the primary key.
-- Returns: their ids, in no order.
SELECT m.id FROM django_mq_message m WHERE m.id IN (SELECT value FROM json_each(%(ids)s)) AND m.state = 1
