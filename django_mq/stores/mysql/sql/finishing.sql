-- Reads the history's numbers of a range that can be seen, whatever can be seen just then.
-- Locks: nothing. Index: the primary key.
-- Returns: the numbers.
SELECT id FROM django_mq_history WHERE id > %(after)s AND id <= %(last)s
