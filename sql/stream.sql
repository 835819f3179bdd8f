-- the pieces together are the answer; the last row tells how it ended
SELECT string_agg(piece, '' ORDER BY seq) = infer_generate('What is the capital of France?', max_tokens => 24) AS same,
       array_agg(finish_reason ORDER BY seq) FILTER (WHERE finish_reason IS NOT NULL) AS finish,
       count(*) > 3 AS in_pieces, max(seq) = count(*) AS numbered
FROM infer_stream('What is the capital of France?', max_tokens => 24);
SELECT piece = '' AS empty, finish_reason, output_tokens
FROM infer_stream('Count from one to one hundred.', max_tokens => 5) ORDER BY seq DESC LIMIT 1;

-- token counts rise
SELECT bool_and(output_tokens >= before) AS rising
FROM (SELECT output_tokens, lag(output_tokens, 1, 0) OVER (ORDER BY seq) AS before
	FROM infer_stream('Count to five.', max_tokens => 10)) s;

-- in the target list, in a cursor that is not read to its end, and two at a time
SELECT count(*) > 1 AS rows FROM (SELECT infer_stream('Hello', max_tokens => 4)) s;
BEGIN;
DECLARE one CURSOR FOR SELECT seq FROM infer_stream('Tell a very long story.', max_tokens => 200);
DECLARE two CURSOR FOR SELECT (infer_stream('Tell a very long story.', max_tokens => 200)).seq;
FETCH 2 FROM one;
FETCH 2 FROM two;
SELECT infer_generate('What is the capital of France?', max_tokens => 24) ~ 'Paris' AS meanwhile;
FETCH 1 FROM one;
COMMIT;
SELECT count(*) FROM (SELECT 1 FROM infer_stream('Tell a very long story.', max_tokens => 200) LIMIT 3) s;

-- an error in the middle of it all leaves nothing in flight
DO $$
DECLARE
	r record;
BEGIN
	FOR r IN SELECT * FROM infer_stream('Tell a very long story.', max_tokens => 200) LOOP
		RAISE EXCEPTION 'enough';
	END LOOP;
EXCEPTION WHEN raise_exception THEN
	RAISE NOTICE 'caught';
END $$;
DO $$
BEGIN
	WHILE (infer_health() -> 'slots' ->> 'free') <> (infer_health() -> 'slots' ->> 'total') LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
SELECT infer_health() -> 'slots' ->> 'running' AS running;
