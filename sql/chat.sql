-- a conversation goes through the model's chat template
SELECT infer_chat('[{"role": "user", "content": "What is the capital of France?"}]', max_tokens => 24) ~ 'Paris' AS says_paris;
SELECT infer_chat('[{"role": "user", "content": "What is the capital of France?"}]', max_tokens => 24)
     = infer_generate('What is the capital of France?', max_tokens => 24) AS same_as_generate;
-- what was said before matters
SELECT infer_chat('[{"role": "user", "content": "Say the word banana."}, {"role": "assistant", "content": "banana"},
	{"role": "user", "content": "Say it again."}]', max_tokens => 24)
    <> infer_chat('[{"role": "user", "content": "Say it again."}]', max_tokens => 24) AS history_matters;
SELECT infer_render('[{"role": "user", "content": "Hi"}]');

-- what is not a conversation is refused
\set VERBOSITY sqlstate
SELECT infer_chat('{"role": "user"}');
SELECT infer_chat('"hello"');
SELECT infer_chat('[1, 2]');
SELECT infer_render('{}');
