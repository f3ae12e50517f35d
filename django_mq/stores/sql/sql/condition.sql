-- name: _wanted. The condition of a claim by selectors on the message m; other claims have none.

-- name: _portion_turn. What the limit of a queue, or of one handler of it, counts.
walk.turn

-- name: _portion_turn_wanted. A claim by selectors has this in place of portion_turn.
walk.portion_turn

-- name: _portion_turns. Only a claim by selectors counts the messages of each handler.
-- name: _portion_turns_wanted
,
            row_number() OVER (PARTITION BY {position} ORDER BY r.level DESC, r.place, r.id) AS portion_turn

-- name: _unknown
NULL

-- name: _text_of
{number_of:{it}}

-- name: _number_of
{it}

-- name: _alike. Compares a text with a pattern; capital letters are others than small ones.
({it}) LIKE

-- name: _pattern
%({it}_like)s ESCAPE '|'
