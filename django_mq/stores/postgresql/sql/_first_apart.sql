{candidates}, parts AS MATERIALIZED (
    SELECT position, count(*) AS size
    FROM (
        SELECT position FROM candidates
        WHERE turn <= (%(limits)s::bigint[])[position]
        ORDER BY rank
        LIMIT %(credit)s
    ) best
    GROUP BY position
), locked AS MATERIALIZED (
    SELECT taken.id, taken.suspect, taken.size_bytes, taken.rank
    FROM parts
    CROSS JOIN LATERAL (
        SELECT free.id, free.suspect, free.size_bytes, ordered.rank
        FROM (SELECT id, rank FROM candidates WHERE position = parts.position ORDER BY rank) ordered
        CROSS JOIN LATERAL ({lock_ready}) free
        LIMIT parts.size
    ) taken
), {chosen_across}
