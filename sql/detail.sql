-- infer_generate_detail tells what the answer cost
SELECT output ~ 'Paris' AS says_paris, finish_reason, prompt_tokens > 5 AS has_prompt, cached_tokens >= 0 AS has_cached,
       output_tokens BETWEEN 2 AND 40 AS has_output, from_cache, model, length(fingerprint) AS fingerprint,
       queue_ms >= 0 AND prefill_ms >= 0 AND decode_ms >= 0 AS has_times, sqlstate, message
FROM infer_generate_detail('What is the capital of France?', max_tokens => 40);

-- a cut answer says so
SELECT finish_reason, output_tokens FROM infer_generate_detail('Count from one to one hundred.', max_tokens => 5);

-- without a seed one is drawn and shown: with it the answer comes again
WITH first AS MATERIALIZED (
	SELECT output, seed FROM infer_generate_detail('Tell a story.', max_tokens => 12, temperature => 1.2)
)
SELECT output = infer_generate('Tell a story.', max_tokens => 12, temperature => 1.2, seed => seed) AS same FROM first;

-- a repeated prompt is taken from the prefix cache
SELECT cached_tokens > 0 AS reused
FROM infer_batch(array_fill(repeat('The quick brown fox. ', 20), ARRAY[2]), max_tokens => 1)
UNION ALL
SELECT cached_tokens > 0 FROM infer_generate_detail(repeat('The quick brown fox. ', 20), max_tokens => 1)
ORDER BY reused DESC LIMIT 1;
