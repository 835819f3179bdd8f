-- soft errors raise by default, and become NULL with one WARNING a statement
\set VERBOSITY sqlstate
SELECT infer_generate(repeat('word ', 20000));
\set VERBOSITY terse
SELECT g, infer_generate(repeat('word ', 20000), on_error => 'null') IS NULL AS is_null FROM generate_series(1, 3) g;
SET infer.on_error = 'null';
SELECT count(*) FROM generate_series(1, 4) g WHERE infer_generate(repeat('word ', 20000)) = 'x';
DO $$
BEGIN
	PERFORM infer_generate(repeat('word ', 20000));
	PERFORM infer_generate(repeat('word ', 20000));
END $$;
RESET infer.on_error;

-- the detail row holds a soft error instead of raising it
SELECT output IS NULL AS no_output, finish_reason, sqlstate, message ~ 'too long|context' AS says_why
FROM infer_generate_detail(repeat('word ', 20000));

-- one bad row of a batch does not take the others along
SELECT ord, output IS NOT NULL AS answered, sqlstate
FROM infer_batch(ARRAY['hello', repeat('word ', 20000), NULL, 'world'], max_tokens => 2);

-- a stream ends with an error, never in silence
\set VERBOSITY sqlstate
SELECT * FROM infer_stream(repeat('word ', 20000));
\set VERBOSITY terse
SELECT seq, piece, finish_reason FROM infer_stream(repeat('word ', 20000), on_error => 'null');

-- a deadline
\set VERBOSITY sqlstate
SET infer.timeout = '1ms';
SELECT infer_generate('Tell a very long story about the sea.', max_tokens => 400);
RESET infer.timeout;

-- a statement that is cut short leaves nothing behind
SET statement_timeout = '50ms';
SELECT infer_generate('Tell a very long story about the sea.', max_tokens => 2000);
RESET statement_timeout;
DO $$
BEGIN
	WHILE (infer_health() -> 'slots' ->> 'free') <> (infer_health() -> 'slots' ->> 'total') LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
SELECT infer_generate('What is the capital of France?', max_tokens => 24) ~ 'Paris' AS says_paris;
