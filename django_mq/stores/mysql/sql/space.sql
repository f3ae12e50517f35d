-- Asks what each of our tables takes of the disk, and how much of it is free.
-- Locks: nothing. Reads statistics only, which may be a day old on MySQL.
-- Returns: table, bytes with indexes, free bytes, rows by the statistics.
SELECT table_name, data_length + index_length, data_free, table_rows
FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name LIKE 'django\_mq\_%%'
ORDER BY table_name
