-- name: space. Asks what the database file takes of the disk, and how much of it is free.
-- Locks: nothing. Returns: bytes, and bytes of free pages.
SELECT p.page_count * s.page_size, f.freelist_count * s.page_size
FROM pragma_page_count p, pragma_page_size s, pragma_freelist_count f

-- name: shape. Reads which columns and indexes our tables have.
-- Locks: nothing. Reads the schema only. Returns: table, and the name of a column or index.
SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c
WHERE t.type = 'table' AND t.name GLOB 'django_mq_*'
UNION ALL
SELECT tbl_name, name FROM sqlite_master
WHERE type = 'index' AND tbl_name GLOB 'django_mq_*'

-- name: definitions. Reads how our tables were created: the names of unique constraints stand only there.
-- Locks: nothing. Reads the schema only. Returns: table, and its CREATE TABLE.
SELECT name, sql FROM sqlite_master
WHERE type = 'table' AND name GLOB 'django_mq_*'

-- name: change_marker. Reads a number that moves when another connection commits.
-- Locks: nothing, reads nothing. Returns: the number, which means something on this connection only.
PRAGMA data_version

-- name: journal_mode. Asks how the database keeps its journal.
-- Locks: nothing. Returns: the mode.
PRAGMA journal_mode

-- name: lock_for_writing. Takes the write lock at the start of a transaction; changes nothing.
-- Locks: the database for writing, until the transaction ends. Returns: nothing.
UPDATE django_mq_queue SET name = name WHERE id < 0
