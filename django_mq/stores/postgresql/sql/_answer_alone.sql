SELECT answer.alive, answer.due, NULL::bigint[], claimed.*
FROM (
    SELECT
        EXISTS (SELECT 1 FROM django_mq_workersession WHERE id = %(session)s) AS alive,
        ({next_due}) AS due
) answer
LEFT JOIN claimed ON true
