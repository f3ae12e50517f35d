-- name: _as. The type of the value before it, which PostgreSQL needs.
-- name: _in_texts
{in:{it}}
-- name: _in_uuids. Of message ids, as hex digits or not.
{in_texts:{it}}
-- name: _by. The index that MariaDB and MySQL are told to use.
-- name: _branch. Begins a part of a UNION with its own order; a parenthesis ends it.
(
-- name: _for_update
FOR UPDATE
-- name: _for_share
FOR SHARE
-- name: _skip_locked
FOR UPDATE SKIP LOCKED
-- name: _returning
RETURNING {it}
-- name: _own_id. The id of a row that an UPDATE of m changes.
m.id
-- name: _unless_taken. Writes no row if one with the same values in these columns exists. MariaDB and MySQL answer
-- with an error, which the store takes for no row.
ON CONFLICT ({it}) DO NOTHING
