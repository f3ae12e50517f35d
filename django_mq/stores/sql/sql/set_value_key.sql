-- Writes down what a last-value queue tells a message by.
-- Locks: the row it changes. Index: the primary key.
-- Returns: one row.
UPDATE django_mq_message SET value_key = %(key)s WHERE id = %(id)s
RETURNING id
