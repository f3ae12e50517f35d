-- Removes claimed messages for good; remember_finished.sql has run.
-- Locks: the database for writing. Index: the primary key. Fenced by session and claim token.
-- Returns: the ids that were still held.
DELETE FROM django_mq_message WHERE id IN (SELECT gone.id {held}) RETURNING id
