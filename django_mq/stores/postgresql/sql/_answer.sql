SELECT answer.alive, answer.due, answer.void, claimed.*
FROM (
    SELECT
        EXISTS (SELECT 1 FROM django_mq_workersession WHERE id = %(session)s) AS alive,
        ({next_due}) AS due,
        CASE WHEN (SELECT count(*) FROM gone) < cardinality(%(ids)s::bigint[])
             THEN ARRAY(SELECT given.id FROM unnest(%(ids)s::bigint[]) AS given(id)
                        WHERE given.id NOT IN (SELECT gone.id FROM gone)) END AS void
) answer
LEFT JOIN claimed ON true
