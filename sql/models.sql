-- the view and the health report
SELECT name, is_default, state, reason, file, architecture, device, has_template, n_parameters > 1e8 AS has_parameters,
       file_bytes > 9e7 AS has_size, n_context, n_vocab, kv_pages_total > 0 AS has_pages, loaded_at <= now() + interval '1 second' AS is_loaded,
       length(fingerprint) AS fingerprint
FROM infer_models;
SELECT infer_health() ->> 'ready' AS ready, infer_health() ->> 'status' AS status,
       (infer_health() ->> 'engine_pid')::int > 0 AS has_pid, (infer_health() ->> 'restarts')::int >= 0 AS has_restarts,
       jsonb_array_length(infer_health() -> 'models') AS n_models;

-- the request counter rises by one a call
CREATE TEMP TABLE before AS SELECT (infer_health() -> 'requests' ->> 'submitted')::bigint AS n;
SELECT count(infer_count_tokens('hi')) FROM generate_series(1, 50);
SELECT (infer_health() -> 'requests' ->> 'submitted')::bigint - n AS requests FROM before;

-- planning, preparing and describing run nothing
CREATE TEMP TABLE before2 AS SELECT (infer_health() -> 'requests' ->> 'submitted')::bigint AS n;
EXPLAIN (COSTS OFF) SELECT 1 FROM pg_class WHERE relname = infer_generate('x');
PREPARE p AS SELECT infer_generate('x');
CREATE VIEW v AS SELECT infer_generate('x') AS answer;
CREATE TEMP TABLE t AS SELECT infer_generate('x') AS answer WITH NO DATA;
SELECT (infer_health() -> 'requests' ->> 'submitted')::bigint - n AS requests FROM before2;
DROP VIEW v;
