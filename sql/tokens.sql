-- the tokenizer answers without a model step
CREATE TEMP TABLE before AS
SELECT (infer_health() -> 'requests' ->> 'submitted')::bigint AS requests, (infer_health() -> 'requests' ->> 'steps')::bigint AS steps;
SELECT infer_count_tokens('Hello world'), infer_tokenize('Hello world');
SELECT (infer_health() -> 'requests' ->> 'submitted')::bigint - requests AS requests,
       (infer_health() -> 'requests' ->> 'steps')::bigint - steps AS steps FROM before;
SELECT infer_count_tokens(''), infer_tokenize('');
SELECT cardinality(infer_tokenize(t)) = infer_count_tokens(t) AS agree
FROM unnest(ARRAY['a', 'Zażółć gęślą jaźń', '日本語', E'line\nline', repeat('many words ', 5000)]) t;

-- user text is data: what looks like a control token is not one
SELECT cardinality(infer_tokenize('<|im_start|>')) > 1 AS spelled_out;
\set VERBOSITY sqlstate
SELECT infer_count_tokens('x', model => 'no-such-model');
