(s.guarded AND s.deadline > {now} + interval '2.5 seconds' AND NOT {attended})
