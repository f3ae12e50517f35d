-- Gives a session a slot in a queue; it has none.
-- Locks: the new row. Index: none.
-- Returns: nothing that is used.
INSERT INTO django_mq_ownership (queue_id, session_id) VALUES (%(queue_id)s, %(session)s)
