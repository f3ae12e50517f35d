-- Asks what each of our tables takes of the disk, and how well it is cleaned up.
-- Locks: nothing. Reads catalogues and statistics only, no message.
-- An index is compared with what its entries would take in a new one, nine tenths full: eight bytes
-- and four for each, and its columns' average widths in steps of eight.
-- Returns: table, bytes with indexes, bytes of indexes beyond what a new one would take, rows and
-- dead rows by the statistics, seconds since the last vacuum, and the table's own settings.
SELECT
    c.relname::text,
    pg_total_relation_size(c.oid),
    coalesce((
        SELECT sum(greatest(0, pg_relation_size(i.indexrelid)
            - 8192 * (2 + ceil(ic.reltuples * (12 + 8 * ceil(w.width / 8.0)) / 0.9 / 8150))))::bigint
        FROM pg_index i
        JOIN pg_class ic ON ic.oid = i.indexrelid AND ic.reltuples >= 0
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(coalesce(st.avg_width, 8)), 8) AS width
            FROM unnest(i.indkey::int2[]) AS k(number)
            LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
            LEFT JOIN pg_stats st
                ON st.schemaname = n.nspname AND st.tablename = c.relname AND st.attname = a.attname
        ) w
        WHERE i.indrelid = c.oid
    ), 0),
    greatest(s.n_live_tup, 0),
    greatest(s.n_dead_tup, 0),
    extract(epoch FROM now() - greatest(s.last_vacuum, s.last_autovacuum))::float8,
    coalesce(array_to_string(c.reloptions, ', '), '')
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_stat_user_tables s ON s.relid = c.oid
WHERE c.relkind = 'r' AND c.relname LIKE 'django\_mq\_%%' AND pg_table_is_visible(c.oid)
ORDER BY c.relname
