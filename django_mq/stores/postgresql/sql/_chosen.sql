cut AS MATERIALIZED (
    SELECT coalesce(bool_or(suspect) OR sum(size_bytes) > %(max_bytes)s::bigint, false) AS needed FROM head
), chosen AS (
    SELECT id FROM head WHERE NOT (SELECT needed FROM cut)
    UNION ALL
    SELECT id
    FROM (
        SELECT
            id, suspect,
            row_number() OVER delivery AS rank,
            count(*) FILTER (WHERE suspect) OVER delivery AS suspects,
            sum(size_bytes) OVER delivery AS total_bytes
        FROM head
        WHERE (SELECT needed FROM cut)
        WINDOW delivery AS (ORDER BY level DESC, place, id)
    ) ranked
    WHERE (suspects = 0 AND (rank = 1 OR total_bytes <= %(max_bytes)s::bigint))
       OR (suspect AND rank = 1 AND %(slots)s::int > 0)
)
