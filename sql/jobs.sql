-- a submitted request is answered while the session does other things
SELECT infer_submit('What is the capital of France?', max_tokens => 24) AS id \gset
SELECT infer_generate('Hello', max_tokens => 2) IS NOT NULL AS meanwhile;
SELECT output ~ 'Paris' AS says_paris, finish_reason FROM infer_result(:id);

-- its result can be taken once
\set VERBOSITY sqlstate
SELECT infer_result(:id);
SELECT infer_result(-1);
\set VERBOSITY default

-- without waiting there may be none yet
SELECT infer_submit('Tell a very long story.', max_tokens => 300) AS id \gset
SELECT infer_result(:id, wait => false) IS NULL AS not_yet;
SELECT infer_cancel(:id) AS cancelled;
SELECT infer_cancel(:id) AS again;

-- it outlives the transaction that submitted it
BEGIN;
SELECT infer_submit('What is the capital of Japan?', max_tokens => 24) AS id \gset
ROLLBACK;
SELECT output ~ 'Tokyo' AS says_tokyo FROM infer_result(:id);

-- soft errors are in the row, and a session may not take all slots
SELECT infer_submit(repeat('word ', 20000)) AS id \gset
SELECT output IS NULL AS no_output, sqlstate FROM infer_result(:id);
\set VERBOSITY sqlstate
SELECT count(infer_submit('Tell a very long story.', max_tokens => 300)) FROM generate_series(1, 100000);
\c -
DO $$
BEGIN
	WHILE (infer_health() -> 'slots' ->> 'free') <> (infer_health() -> 'slots' ->> 'total') LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
SELECT infer_generate('What is the capital of France?', max_tokens => 24) ~ 'Paris' AS says_paris;
