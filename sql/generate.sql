-- infer_generate answers, is deterministic by default, and takes its options by name
SELECT infer_generate('What is the capital of France?', max_tokens => 24) ~ 'Paris' AS says_paris;
SELECT infer_generate('Name three colours.', max_tokens => 12)
     = infer_generate('Name three colours.', max_tokens => 12) AS same_twice;

-- '' is a prompt
SELECT infer_generate('', max_tokens => 4) IS NOT NULL AS answered;

-- a seed makes chance repeatable, and other seeds give other answers
SELECT infer_generate('Tell a story.', max_tokens => 16, temperature => 1.5, seed => 7)
     = infer_generate('Tell a story.', max_tokens => 16, temperature => 1.5, seed => 7) AS same_seed;
SELECT count(DISTINCT infer_generate('Tell a story.', max_tokens => 16, temperature => 1.5, seed => g)) > 1 AS seeds_differ
FROM generate_series(1, 4) g;

-- a stop string ends the answer and is not part of it
SELECT infer_generate('What is the capital of France?', max_tokens => 24, stop => ARRAY['Paris']) !~ 'Paris' AS stopped;

-- a system message, raw continuation, and a bias reach the model
SELECT infer_generate('What are you?', system => 'You are a pirate.', max_tokens => 12)
    <> infer_generate('What are you?', system => 'You are a poet.', max_tokens => 12) AS system_matters;
SELECT infer_generate('The capital of France is', max_tokens => 3, options => '{"raw": true}') ~ 'Paris' AS continued;

-- a setting is the default, an argument wins over options, options win over the setting
SET infer.max_tokens = 3;
SELECT (infer_generate_detail('Count to ten.')).output_tokens AS setting,
       (infer_generate_detail('Count to ten.', options => '{"max_tokens": 5}')).output_tokens AS option,
       (infer_generate_detail('Count to ten.', max_tokens => 7, options => '{"max_tokens": 5}')).output_tokens AS argument;
RESET infer.max_tokens;

-- one request a row, in any clause
SELECT g, infer_generate('Say ' || g, max_tokens => 2) IS NOT NULL AS answered FROM generate_series(1, 3) g ORDER BY g;
SELECT count(*) FROM generate_series(1, 3) g WHERE infer_generate('Say ' || g, max_tokens => 2) IS NOT NULL;

-- a prompt that is larger than a slot, and an answer that is fetched in a function
SELECT infer_count_tokens(repeat('word ', 20000)) > 19000 AS large_prompt;
CREATE FUNCTION answer_of(question text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answer text;
BEGIN
	answer := infer_generate(question, max_tokens => 24);
	RETURN answer;
END $$;
SELECT answer_of('What is the capital of France?') ~ 'Paris' AS says_paris;
DROP FUNCTION answer_of(text);

-- nothing is left in flight
SELECT infer_health() -> 'slots' ->> 'running' AS running, infer_health() -> 'slots' ->> 'submitted' AS submitted;
