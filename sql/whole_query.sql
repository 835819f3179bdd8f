-- ordinary SQL keeps the engine's batch full: results, order and cost are those of row by row
CREATE TEMP TABLE docs AS SELECT g AS id, 'Say something about the number ' || g AS body FROM generate_series(1, 20) g;
CREATE FUNCTION requests() RETURNS bigint LANGUAGE sql VOLATILE AS
	$$ SELECT (infer_health() -> 'requests' ->> 'submitted')::bigint $$;
SET infer.max_tokens = 4;
SET infer.batch = off;
CREATE TEMP TABLE one_by_one AS SELECT id, infer_generate(body) AS answer FROM docs;
SET infer.batch = on;
SELECT requests() AS n \gset
CREATE TEMP TABLE together AS SELECT id, infer_generate(body) AS answer FROM docs;
SELECT requests() - :n AS requests, (SELECT count(*) FROM together JOIN one_by_one USING (id, answer)) AS same;
-- LIMIT pays for what it returns, a filter in front of it for at most twice as much
SELECT requests() AS n \gset
SELECT count(*) FROM (SELECT infer_generate(body) FROM docs ORDER BY id LIMIT 5) s;
SELECT requests() - :n AS requests;
SELECT requests() AS n \gset
SELECT count(*) FROM (SELECT 1 FROM docs WHERE infer_generate(body) IS NOT NULL LIMIT 3) s;
SELECT requests() - :n <= 6 AS bounded;
-- an arm that is not taken costs nothing; nested calls are two pipelines
SELECT requests() AS n \gset
SELECT count(CASE WHEN id <= 3 THEN infer_generate(body) END) AS arms,
       count(coalesce(nullif(id, 7)::text, infer_generate(body))) AS coalesced FROM docs;
SELECT requests() - :n AS requests;
SELECT requests() AS n \gset
SELECT count(infer_generate('Repeat: ' || infer_generate(body))) FROM docs WHERE id <= 4;
SELECT requests() - :n AS requests;
-- equal prompts share an answer, chance does not
SELECT requests() AS n \gset
SELECT count(infer_generate('Hello')) FROM docs;
SELECT requests() - :n AS requests;
SELECT requests() AS n \gset
SELECT count(infer_generate('Write a poem.', temperature => 1)) FROM docs WHERE id <= 6;
SELECT requests() - :n AS requests;
-- UPDATE, aggregates, window functions, a cursor, a loop
ALTER TABLE docs ADD answer text;
UPDATE docs SET answer = infer_generate(body) WHERE id <= 5;
SELECT count(*) FROM docs JOIN one_by_one o USING (id, answer);
SELECT max(infer_generate(body)) = (SELECT max(answer) FROM one_by_one) AS same_max FROM docs;
SELECT count(*) FROM (SELECT lag(infer_generate(body)) OVER (ORDER BY id) = lag(answer) OVER (ORDER BY id) AS same FROM docs WHERE id <= 5) s WHERE same;
BEGIN;
SELECT requests() AS n \gset
DECLARE c CURSOR FOR SELECT infer_generate(body) FROM docs ORDER BY id;
FETCH 2 FROM c \g /dev/null
SELECT requests() - :n AS first_fetch;
COMMIT;
DO $$
DECLARE
	r record;
	n int := 0;
BEGIN
	FOR r IN SELECT infer_generate(body) AS answer FROM docs LOOP
		n := n + (r.answer IS NOT NULL)::int;
	END LOOP;
	RAISE NOTICE '% answers', n;
END $$;
-- an error stops where row by row would; nothing stays in flight
\set VERBOSITY sqlstate
SELECT infer_generate(CASE WHEN id = 4 THEN repeat('word ', 20000) ELSE body END) FROM docs;
\set VERBOSITY default
SELECT count(infer_generate(CASE WHEN id = 4 THEN repeat('word ', 20000) ELSE body END, on_error => 'null')) FROM docs;
EXPLAIN (COSTS OFF) SELECT id, infer_generate(body, 'm', 's', 1, 0, 1, 1, 1, '{}', 'null', '{}') FROM docs WHERE id > 3;
-- what still goes row by row says so, once a statement
SET infer.max_tokens = 1;
DO $$
DECLARE
	answer text;
BEGIN
	FOR i IN 1 .. 70 LOOP
		answer := infer_generate('Say ' || i);
	END LOOP;
END $$;
SELECT count(infer_generate('Say ' || g)) FROM generate_series(1, 40) g;
-- the privilege is checked in the node too
CREATE ROLE regress_infer_batch;
GRANT SELECT ON docs TO regress_infer_batch;
SET ROLE regress_infer_batch;
\set VERBOSITY terse
SELECT infer_generate(body) FROM docs;
RESET ROLE;
DROP OWNED BY regress_infer_batch;
DROP ROLE regress_infer_batch;
DO $$
BEGIN
	WHILE (infer_health() -> 'slots' ->> 'free') <> (infer_health() -> 'slots' ->> 'total') LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
DROP FUNCTION requests();
