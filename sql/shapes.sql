-- shapes of queries: answers and requests of each, batched and row by row
CREATE TEMP TABLE docs AS SELECT g AS id, 'Say the number ' || g AS body FROM generate_series(1, 12) g;
CREATE TEMP TABLE keep AS SELECT g AS id FROM generate_series(1, 12, 3) g;
CREATE TEMP TABLE part (id int, body text) PARTITION BY HASH (id);
CREATE TEMP TABLE part_0 PARTITION OF part FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TEMP TABLE part_1 PARTITION OF part FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO part SELECT * FROM docs;
CREATE INDEX ON docs (id);
ANALYZE docs, keep, part;
SET infer.max_tokens = 1;

-- one line a query: answers as row by row?, requests of both ways, several in flight when batched?
CREATE FUNCTION batch_compare(query text, OUT same bool, OUT row_by_row bigint, OUT batched bigint, OUT together bool)
LANGUAGE plpgsql AS $$
DECLARE
	before bigint;
	expected text[];
	got text[];
	plan json;
BEGIN
	SET LOCAL infer.batch = off;
	before := (infer_health() -> 'requests' ->> 'submitted')::bigint;
	EXECUTE 'SELECT array_agg(s::text ORDER BY s::text) FROM (' || query || ') s' INTO expected;
	row_by_row := (infer_health() -> 'requests' ->> 'submitted')::bigint - before;
	SET LOCAL infer.batch = on;
	before := (infer_health() -> 'requests' ->> 'submitted')::bigint;
	EXECUTE 'SELECT array_agg(s::text ORDER BY s::text) FROM (' || query || ') s' INTO got;
	batched := (infer_health() -> 'requests' ->> 'submitted')::bigint - before;
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || query INTO plan;
	same := got = expected;
	SELECT max(n[1]::int) > 1 INTO together FROM regexp_matches(plan::text, '"Max In Flight": (\d+)', 'g') AS n;
END $$;

-- LATERAL: a call for each outer row becomes a node over them
SELECT * FROM batch_compare($$ SELECT d.id, s.g FROM docs d, LATERAL (SELECT infer_generate(d.body) AS g) s $$);
SELECT * FROM batch_compare($$ SELECT d.id, s.g || s.g FROM docs d LEFT JOIN LATERAL (SELECT infer_generate(d.body) AS g) s ON true $$);
SELECT * FROM batch_compare($$ SELECT d.id, g FROM docs d, infer_generate(d.body) AS g $$);
SELECT * FROM batch_compare($$ SELECT d.id, a.output, a.prompt_tokens FROM docs d, infer_generate_detail(d.body) AS a $$);
SELECT * FROM batch_compare($$ SELECT d.id, s.g FROM docs d, LATERAL (SELECT infer_generate(d.body) AS g) s WHERE s.g LIKE '%e%' $$);
SELECT * FROM batch_compare($$ SELECT d.id, s.g FROM docs d, LATERAL (SELECT CASE WHEN d.id < 5 THEN infer_generate(d.body) END AS g) s $$);
SELECT * FROM batch_compare($$ SELECT d.id, s.g FROM docs d, LATERAL (SELECT infer_generate('Repeat ' || d.id || ': ' || infer_generate(d.body)) AS g) s WHERE d.id < 4 $$);

-- a scalar sub-select of one call
SELECT * FROM batch_compare($$ SELECT d.id, (SELECT infer_generate(d.body)) AS g FROM docs d $$);
SELECT * FROM batch_compare($$ SELECT d.id FROM docs d WHERE (SELECT infer_generate(d.body)) LIKE '%e%' $$);

-- nested loops: the inner side has a row or a few for each outer one
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
SELECT * FROM batch_compare($$ SELECT k.id, s.g FROM keep k, LATERAL (SELECT infer_generate(d.body || k.id) AS g FROM docs d WHERE d.id = k.id OFFSET 0) s $$);
SELECT * FROM batch_compare($$ SELECT k.id, s.g, s.n FROM keep k,
	LATERAL (SELECT d.id AS n, infer_generate(d.body) AS g FROM docs d WHERE d.id BETWEEN k.id AND k.id + 1 AND infer_generate(d.body) IS NOT NULL OFFSET 0) s
	WHERE k.id < 8 $$);
SELECT * FROM batch_compare($$ SELECT k.id, s.g FROM keep k LEFT JOIN LATERAL (SELECT infer_generate(d.body) AS g FROM docs d WHERE d.id = k.id + 11 OFFSET 0) s ON true $$);
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_material;
RESET enable_memoize;

-- partitions and UNION ALL: one node above them
SELECT * FROM batch_compare($$ SELECT id, infer_generate(body) FROM part $$);
SELECT * FROM batch_compare($$ SELECT id FROM part WHERE infer_generate(body) LIKE '%1%' $$);
SELECT * FROM batch_compare($$ SELECT infer_generate(body) FROM docs WHERE id < 4 UNION ALL SELECT infer_generate(body) FROM docs WHERE id > 9 $$);
SELECT id, infer_generate(body) IS NOT NULL AS answered FROM part WHERE id < 4 ORDER BY id;
EXPLAIN (COSTS OFF) SELECT id, infer_generate(body, NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL) FROM part;

-- rows that OFFSET skips are not paid, unless something else in the list would miss them
SELECT * FROM batch_compare($$ SELECT id, infer_generate(body) FROM docs ORDER BY id LIMIT 3 OFFSET 4 $$);
SELECT * FROM batch_compare($$ SELECT id, infer_generate(body) FROM docs ORDER BY id OFFSET 9 $$);
CREATE TEMP SEQUENCE steps;
SELECT * FROM batch_compare($$ SELECT id, nextval('steps') > 0 AS step, infer_generate(body) FROM docs ORDER BY id LIMIT 3 OFFSET 4 $$);
SELECT last_value FROM steps;

-- a call in WHERE and again in the list or an aggregate is one call, unless it is a matter of chance
SELECT * FROM batch_compare($$ SELECT id, infer_generate(body) FROM docs WHERE infer_generate(body) IS NOT NULL $$);
SELECT * FROM batch_compare($$ SELECT max(infer_generate(body)), min(infer_generate(body)), count(*) FROM docs WHERE infer_generate(body) IS NOT NULL $$);
SELECT * FROM batch_compare($$ SELECT id, infer_generate(body) || infer_generate(body) FROM docs WHERE id < 7 AND infer_generate(body) LIKE '%e%' AND infer_generate(body) IS NOT NULL $$);
SELECT * FROM batch_compare($$ SELECT id FROM docs WHERE infer_generate(body, temperature => 1) IS NOT NULL AND infer_generate(body, temperature => 1) IS NOT NULL AND id > 8 $$);
SELECT * FROM batch_compare($$ SELECT id, infer_generate(body, seed => 7, temperature => 1) FROM docs WHERE infer_generate(body, seed => 7, temperature => 1) IS NOT NULL $$);
SELECT * FROM batch_compare($$ SELECT id, infer_generate(body) FROM docs WHERE id < 3 OR infer_generate(body) IS NULL $$);

-- grouping, sets, windows, sets of rows, recursion
SELECT * FROM batch_compare($$ SELECT id % 3, count(*) FROM docs GROUP BY 1 HAVING infer_generate('x' || (id % 3)) IS NOT NULL $$);
SELECT * FROM batch_compare($$ SELECT id % 3 AS k, infer_generate(string_agg(body, ',' ORDER BY id)) FROM docs GROUP BY 1 $$);
SELECT * FROM batch_compare($$ SELECT infer_generate(body) AS g, count(*) FROM docs GROUP BY 1 $$);
SELECT * FROM batch_compare($$ SELECT DISTINCT ON (id % 2) id, infer_generate(body) FROM docs ORDER BY id % 2, id $$);
SELECT * FROM batch_compare($$ SELECT id FROM docs ORDER BY infer_generate(body), id LIMIT 4 $$);
SELECT * FROM batch_compare($$ SELECT id, unnest(string_to_array(infer_generate(body), ' ')) FROM docs $$);
SELECT * FROM batch_compare($$ WITH c AS MATERIALIZED (SELECT id, infer_generate(body) AS g FROM docs) SELECT * FROM c a JOIN c b USING (id) $$);
SELECT * FROM batch_compare($$ WITH RECURSIVE r(n, t) AS (SELECT 1, infer_generate('one') UNION ALL
	SELECT n + 1, infer_generate('n' || n) FROM r WHERE n < 5) SELECT * FROM r $$);
SELECT * FROM batch_compare($$ SELECT id FROM keep k WHERE EXISTS (SELECT 1 FROM docs d WHERE d.id = k.id AND infer_generate(d.body) IS NOT NULL) $$);
SELECT * FROM batch_compare($$ SELECT EXISTS (SELECT 1 FROM docs WHERE infer_generate(body) IS NOT NULL) $$);
SELECT * FROM batch_compare($$ SELECT infer_generate(body) FROM docs EXCEPT SELECT infer_generate('x') $$);
SELECT * FROM batch_compare($$ SELECT k.id FROM keep k JOIN docs d ON d.id = k.id AND infer_generate(d.body || k.id) IS NOT NULL $$);
SELECT * FROM batch_compare($$ SELECT k.id, d.id FROM keep k FULL JOIN (SELECT id, infer_generate(body) g FROM docs) d ON d.id = k.id $$);

DROP FUNCTION batch_compare(text);
