{candidates}, locked AS MATERIALIZED (
    SELECT free.id, free.suspect, free.size_bytes, ordered.rank
    FROM (SELECT id, rank FROM candidates ORDER BY rank) ordered
    CROSS JOIN LATERAL ({lock_ready}) free
    LIMIT %(credit)s
), {chosen_across}
