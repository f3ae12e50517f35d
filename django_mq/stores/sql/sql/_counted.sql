-- A suspect's attempt was counted when the message was claimed, any other one is counted when it is settled.
m.attempts + CASE WHEN given.counted AND NOT m.suspect THEN 1 WHEN m.suspect AND NOT given.counted THEN -1 ELSE 0 END
