-- all prompts of an array, in the array's order, each with its own answer
SELECT ord, output ~ capital AS right
FROM infer_batch(ARRAY['What is the capital of France?', 'What is the capital of Germany?', 'What is the capital of Japan?'],
	max_tokens => 24) AS b
JOIN unnest(ARRAY['Paris', 'Berlin', 'Tokyo']) WITH ORDINALITY AS c(capital, ord) USING (ord)
ORDER BY ord;
SELECT ord, output IS NULL AS is_null FROM infer_batch(ARRAY['a', NULL, 'b'], max_tokens => 2);
SELECT count(*) FROM infer_batch('{}');

-- together they give what they give alone, with a small window too
SELECT count(*) FILTER (WHERE b.output = infer_generate('Say the number ' || b.ord, max_tokens => 6)) AS same
FROM infer_batch(ARRAY(SELECT 'Say the number ' || g FROM generate_series(1, 12) g), max_tokens => 6) AS b;
SET infer.prefetch = 2;
SELECT count(*), min(ord), max(ord), count(output)
FROM infer_batch(ARRAY(SELECT 'Say the number ' || g FROM generate_series(1, 7) g), max_tokens => 3);
RESET infer.prefetch;

-- in the target list, and with LIMIT
SELECT (infer_batch(ARRAY['a', 'b', 'c'], max_tokens => 1)).ord LIMIT 2;
SELECT infer_health() -> 'slots' ->> 'submitted' AS submitted;
