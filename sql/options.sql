-- bad options are hard errors: on_error does not soften them
\set VERBOSITY sqlstate
SELECT infer_generate('x', max_tokens => 0);
SELECT infer_generate('x', temperature => -1);
SELECT infer_generate('x', temperature => 'NaN');
SELECT infer_generate('x', top_p => 0);
SELECT infer_generate('x', top_k => -1);
SELECT infer_generate('x', on_error => 'ignore');
SELECT infer_generate('x', stop => ARRAY['']);
SELECT infer_generate('x', stop => ARRAY[NULL]::text[]);
SELECT infer_generate('x', stop => ARRAY[repeat('s', 2000)]);
SELECT infer_generate('x', stop => array_fill('s'::text, ARRAY[100]));
SELECT infer_generate('x', model => 'no-such-model', on_error => 'null');
SELECT infer_generate('x', model => repeat('m', 100));
SELECT infer_generate('x', options => '{"max_tokens": 1.5}');
SELECT infer_generate('x', options => '{"max_tokens": "many"}');
SELECT infer_generate('x', options => '{"priority": 5}');
SELECT infer_generate('x', options => '{"raw": 1}');
SELECT infer_generate('x', options => '{"stop": [1]}');
SELECT infer_generate('x', options => '{"logit_bias": {"x": 1}}');
SELECT infer_generate('x', options => '{"logit_bias": {"1": 1000}}');
SELECT infer_generate('x', options => '{"logit_bias": {" 1": 1}}');
SELECT infer_generate('x', options => '{"logit_bias": {"01": 1}}');
SELECT infer_generate('x', options => '{"seed": 1.5}');
SELECT infer_generate('x', options => '{"seed": 9223372036854775808}');
SELECT infer_generate('x', options => '{"seed": -9223372036854775809}');
SELECT infer_generate('x', options => '[]');

-- an unknown key is refused, and the nearest one named
\set VERBOSITY default
SELECT infer_generate('x', options => '{"temprature": 1}');
SELECT infer_generate('x', options => '{"maxtokens": 1}');
SELECT infer_generate('x', options => '{"zzzzzzzzzzzz": 1}');
SELECT infer_generate('x', options => jsonb_build_object(repeat('k', 1000), 1));
SELECT infer_generate('x', model => repeat('ü', 1000));
SELECT infer_generate('x', max_tokens => 0);
SELECT infer_generate('x', on_error => 'ignore');
SELECT infer_chat('[{"role": "user", "content": "x"}]', options => '{"raw": true}');
SELECT infer_chat('[{"role": "user", "content": "x"}]', options => '{"system": "x"}');

-- seeds go to both ends; a top_p too small for a float keeps the likeliest token, as 0 would
SELECT infer_generate('Hello', max_tokens => 2, options => '{"seed": 9223372036854775807}') IS NOT NULL AS most,
	infer_generate('Hello', max_tokens => 2, options => '{"seed": -9223372036854775808}') IS NOT NULL AS least;
SELECT infer_generate('Hello', temperature => 1, top_p => 1e-300, max_tokens => 4)
	= infer_generate('Hello', temperature => 0, max_tokens => 4) AS likeliest;

-- every key is taken
SELECT infer_generate('Hello', options => '{"max_tokens": 2, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.05,
	"repeat_penalty": 1.1, "repeat_last_n": 32, "frequency_penalty": 0.1, "presence_penalty": 0.1, "seed": 1,
	"priority": -1, "raw": false, "stop": ["x", "y"], "logit_bias": {"5": -1.5}, "model": "smollm2",
	"system": "Be brief.", "on_error": "error"}') IS NOT NULL AS answered;
