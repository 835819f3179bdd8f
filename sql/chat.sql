-- a conversation goes through the model's chat template
SELECT infer_chat('[{"role": "user", "content": "What is the capital of France?"}]', max_tokens => 24) ~ 'Paris' AS says_paris;
SELECT infer_chat('[{"role": "user", "content": "What is the capital of France?"}]', max_tokens => 24)
     = infer_generate('What is the capital of France?', max_tokens => 24) AS same_as_generate;
SELECT infer_chat('[{"role": "system", "content": "Answer briefly."},
	{"role": "user", "content": "My name is Ada."},
	{"role": "assistant", "content": "Hello Ada."},
	{"role": "user", "content": "What is my name?"}]', max_tokens => 24) ~ 'Ada' AS remembers;
SELECT infer_render('[{"role": "user", "content": "Hi"}]');

-- what is not a conversation is refused
\set VERBOSITY sqlstate
SELECT infer_chat('{"role": "user"}');
SELECT infer_chat('"hello"');
SELECT infer_chat('[1, 2]');
SELECT infer_render('{}');
