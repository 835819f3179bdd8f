-- a NULL subject is answered NULL without a request; a NULL option means its default
CREATE TEMP TABLE before AS SELECT (infer_health() -> 'requests' ->> 'submitted')::bigint AS n;
SELECT infer_generate(NULL) IS NULL AS generate, infer_generate_detail(NULL) IS NULL AS detail,
       infer_chat(NULL) IS NULL AS chat, infer_count_tokens(NULL) IS NULL AS count_tokens,
       infer_tokenize(NULL) IS NULL AS tokenize, infer_render(NULL) IS NULL AS render,
       infer_submit(NULL) IS NULL AS submit, infer_result(NULL) IS NULL AS result, infer_cancel(NULL) IS NULL AS cancel;
SELECT count(*) FROM infer_stream(NULL);
SELECT count(*) FROM infer_batch(NULL);
SELECT ord, output FROM infer_batch(ARRAY[NULL, NULL]::text[]);
SELECT (infer_health() -> 'requests' ->> 'submitted')::bigint - n AS requests FROM before;

SELECT infer_generate('What is the capital of France?', model => NULL, system => NULL, max_tokens => NULL,
	temperature => NULL, top_p => NULL, top_k => NULL, seed => NULL, stop => NULL, on_error => NULL,
	options => NULL) ~ 'Paris' AS all_defaults;
SELECT infer_generate('What is the capital of France?', max_tokens => 24, options => '{"temperature": null, "stop": null}') ~ 'Paris' AS json_null;
SELECT infer_count_tokens('hello', model => NULL) > 0 AS counted;
