chosen AS (
    SELECT id FROM head WHERE NOT EXISTS (SELECT 1 FROM head WHERE suspect)
    UNION ALL
    SELECT id
    FROM (
        SELECT
            id, suspect,
            row_number() OVER delivery AS rank,
            count(*) FILTER (WHERE suspect) OVER delivery AS suspects
        FROM head
        WHERE EXISTS (SELECT 1 FROM head WHERE suspect)
        WINDOW delivery AS (ORDER BY level DESC, place, id)
    ) ranked
    WHERE suspects = 0 OR (suspect AND rank = 1 AND %(slots)s::int > 0)
)
