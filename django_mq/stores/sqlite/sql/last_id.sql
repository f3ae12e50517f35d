-- Tells under which id this connection has written its last row; ids are given one after the other.
-- Locks: nothing. Index: none.
-- Returns: the id.
SELECT last_insert_rowid()
