chosen AS (
    SELECT id, rank
    FROM (
        SELECT id, suspect, rank, {running_totals}
        FROM locked
        WINDOW delivery AS (ORDER BY rank ROWS UNBOUNDED PRECEDING)
    ) ranked
    WHERE {fits}
)
