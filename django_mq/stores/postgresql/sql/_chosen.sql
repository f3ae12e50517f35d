chosen AS (
    SELECT id
    FROM (
        SELECT id, suspect, {running_totals}
        FROM head
        WINDOW delivery AS (ORDER BY level DESC, place, id ROWS UNBOUNDED PRECEDING)
    ) ranked
    WHERE {fits}
)
