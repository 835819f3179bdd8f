/* sql/install/infer.sql, installed as infer--VERSION.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION infer" to load this file. \quit

-- Conventions: everything after the subject has a default and is meant to be named. Functions are
-- called on NULL input: a NULL subject is answered NULL without a request, a NULL option means its
-- default. Generation is VOLATILE: it runs once for each row, as written. COST puts it last among
-- the conditions of a level. Nobody but the owner may execute anything until it is granted.

-- The row that infer_generate_detail, infer_batch and infer_result tell an answer in. Column names
-- of OUT parameters would clash with those of the arguments.
CREATE TYPE infer_answer AS (
	output text,
	finish_reason text,
	prompt_tokens integer,
	cached_tokens integer,
	output_tokens integer,
	from_cache boolean,
	model text,
	fingerprint text,
	seed bigint,
	queue_ms double precision,
	prefill_ms double precision,
	decode_ms double precision,
	sqlstate text,
	message text
);
COMMENT ON TYPE infer_answer IS 'an answer of a language model with its counts, times and error';

CREATE TYPE infer_batch_answer AS (
	ord integer,
	output text,
	finish_reason text,
	prompt_tokens integer,
	cached_tokens integer,
	output_tokens integer,
	from_cache boolean,
	model text,
	fingerprint text,
	seed bigint,
	queue_ms double precision,
	prefill_ms double precision,
	decode_ms double precision,
	sqlstate text,
	message text
);
COMMENT ON TYPE infer_batch_answer IS 'an infer_answer with the place of its prompt in the array';

-- ---- generation ---------------------------------------------------------------------------------

CREATE FUNCTION infer_generate(
	prompt text, model text DEFAULT NULL, system text DEFAULT NULL, max_tokens integer DEFAULT NULL,
	temperature double precision DEFAULT NULL, top_p double precision DEFAULT NULL,
	top_k integer DEFAULT NULL, seed bigint DEFAULT NULL, stop text[] DEFAULT NULL,
	on_error text DEFAULT NULL, options jsonb DEFAULT NULL
) RETURNS text
AS 'MODULE_PATHNAME', 'infer_generate'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL RESTRICTED COST 100000;
COMMENT ON FUNCTION infer_generate(text, text, text, integer, double precision, double precision, integer, bigint, text[], text, jsonb) IS
	'answers a prompt with a language model';

CREATE FUNCTION infer_generate_detail(
	prompt text, model text DEFAULT NULL, system text DEFAULT NULL, max_tokens integer DEFAULT NULL,
	temperature double precision DEFAULT NULL, top_p double precision DEFAULT NULL,
	top_k integer DEFAULT NULL, seed bigint DEFAULT NULL, stop text[] DEFAULT NULL,
	on_error text DEFAULT NULL, options jsonb DEFAULT NULL
) RETURNS infer_answer
AS 'MODULE_PATHNAME', 'infer_generate_detail'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL RESTRICTED COST 100000;
COMMENT ON FUNCTION infer_generate_detail(text, text, text, integer, double precision, double precision, integer, bigint, text[], text, jsonb) IS
	'answers a prompt and tells token counts, times and, instead of raising it, a soft error';

CREATE FUNCTION infer_stream(
	prompt text, model text DEFAULT NULL, system text DEFAULT NULL, max_tokens integer DEFAULT NULL,
	temperature double precision DEFAULT NULL, top_p double precision DEFAULT NULL,
	top_k integer DEFAULT NULL, seed bigint DEFAULT NULL, stop text[] DEFAULT NULL,
	on_error text DEFAULT NULL, options jsonb DEFAULT NULL
) RETURNS TABLE (seq integer, piece text, finish_reason text, output_tokens integer)
AS 'MODULE_PATHNAME', 'infer_stream'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL RESTRICTED COST 100000 ROWS 100;
COMMENT ON FUNCTION infer_stream(text, text, text, integer, double precision, double precision, integer, bigint, text[], text, jsonb) IS
	'answers a prompt piece by piece as it is generated; the last row has the finish_reason';

CREATE FUNCTION infer_chat(
	messages jsonb, model text DEFAULT NULL, max_tokens integer DEFAULT NULL,
	temperature double precision DEFAULT NULL, top_p double precision DEFAULT NULL,
	top_k integer DEFAULT NULL, seed bigint DEFAULT NULL, stop text[] DEFAULT NULL,
	on_error text DEFAULT NULL, options jsonb DEFAULT NULL
) RETURNS text
AS 'MODULE_PATHNAME', 'infer_chat'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL RESTRICTED COST 100000;
COMMENT ON FUNCTION infer_chat(jsonb, text, integer, double precision, double precision, integer, bigint, text[], text, jsonb) IS
	'continues a conversation: [{"role": "user", "content": "..."}, ...]';

CREATE FUNCTION infer_batch(
	prompts text[], model text DEFAULT NULL, system text DEFAULT NULL,
	max_tokens integer DEFAULT NULL, temperature double precision DEFAULT NULL,
	top_p double precision DEFAULT NULL, top_k integer DEFAULT NULL, seed bigint DEFAULT NULL,
	stop text[] DEFAULT NULL, on_error text DEFAULT NULL, options jsonb DEFAULT NULL
) RETURNS SETOF infer_batch_answer
AS 'MODULE_PATHNAME', 'infer_batch'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL RESTRICTED COST 100000 ROWS 100;
COMMENT ON FUNCTION infer_batch(text[], text, text, integer, double precision, double precision, integer, bigint, text[], text, jsonb) IS
	'answers all prompts of an array together; rows come in the order of the array';

-- ---- requests that run on by themselves -----------------------------------------------------------

CREATE FUNCTION infer_submit(
	prompt text, model text DEFAULT NULL, system text DEFAULT NULL, max_tokens integer DEFAULT NULL,
	temperature double precision DEFAULT NULL, top_p double precision DEFAULT NULL,
	top_k integer DEFAULT NULL, seed bigint DEFAULT NULL, stop text[] DEFAULT NULL,
	on_error text DEFAULT NULL, options jsonb DEFAULT NULL
) RETURNS bigint
AS 'MODULE_PATHNAME', 'infer_submit'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL RESTRICTED COST 1000;
COMMENT ON FUNCTION infer_submit(text, text, text, integer, double precision, double precision, integer, bigint, text[], text, jsonb) IS
	'starts to answer a prompt and returns at once; the number is for infer_result';

CREATE FUNCTION infer_result(id bigint, wait boolean DEFAULT true) RETURNS infer_answer
AS 'MODULE_PATHNAME', 'infer_result'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL RESTRICTED COST 100000;
COMMENT ON FUNCTION infer_result(bigint, boolean) IS
	'takes the answer of a submitted request; NULL when it is not there yet and wait is false';

CREATE FUNCTION infer_cancel(id bigint) RETURNS boolean
AS 'MODULE_PATHNAME', 'infer_cancel'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL RESTRICTED;
COMMENT ON FUNCTION infer_cancel(bigint) IS
	'drops a submitted request; true when it was still being answered';

-- ---- the tokenizer --------------------------------------------------------------------------------

CREATE FUNCTION infer_count_tokens(input text, model text DEFAULT NULL) RETURNS integer
AS 'MODULE_PATHNAME', 'infer_count_tokens'
LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL RESTRICTED COST 1000;
COMMENT ON FUNCTION infer_count_tokens(text, text) IS
	'number of tokens that a model makes of a text, without its chat template';

CREATE FUNCTION infer_tokenize(input text, model text DEFAULT NULL) RETURNS integer[]
AS 'MODULE_PATHNAME', 'infer_tokenize'
LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL RESTRICTED COST 1000;
COMMENT ON FUNCTION infer_tokenize(text, text) IS 'token ids that a model makes of a text';

CREATE FUNCTION infer_render(messages jsonb, model text DEFAULT NULL) RETURNS text
AS 'MODULE_PATHNAME', 'infer_render'
LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL RESTRICTED COST 1000;
COMMENT ON FUNCTION infer_render(jsonb, text) IS
	'the prompt that a model''s chat template makes of a conversation';

-- ---- what a DBA looks at ----------------------------------------------------------------------------

CREATE FUNCTION infer_models_list(
	OUT name text, OUT is_default boolean, OUT state text, OUT reason text, OUT file text,
	OUT architecture text, OUT type text, OUT description text, OUT device text,
	OUT has_template boolean, OUT load_progress real, OUT n_parameters bigint,
	OUT file_bytes bigint, OUT resident_bytes bigint, OUT n_context integer, OUT n_vocab integer,
	OUT kv_pages_total integer, OUT kv_pages_free integer, OUT kv_pages_cached integer,
	OUT n_running integer, OUT n_waiting integer, OUT loaded_at timestamptz, OUT fingerprint text
) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'infer_models_list'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 4;
COMMENT ON FUNCTION infer_models_list() IS 'rows of the view infer_models';

CREATE VIEW infer_models AS SELECT * FROM @extschema@.infer_models_list();
COMMENT ON VIEW infer_models IS 'models that the engine serves, loads or could not load, and why';

CREATE FUNCTION infer_health() RETURNS jsonb
AS 'MODULE_PATHNAME', 'infer_health'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION infer_health() IS
	'state of the engine: ready, engine_pid, restarts, request counters, slots, models';

-- ---- privileges -------------------------------------------------------------------------------------

REVOKE EXECUTE ON FUNCTION
	infer_generate(text, text, text, integer, double precision, double precision, integer, bigint, text[], text, jsonb),
	infer_generate_detail(text, text, text, integer, double precision, double precision, integer, bigint, text[], text, jsonb),
	infer_stream(text, text, text, integer, double precision, double precision, integer, bigint, text[], text, jsonb),
	infer_chat(jsonb, text, integer, double precision, double precision, integer, bigint, text[], text, jsonb),
	infer_batch(text[], text, text, integer, double precision, double precision, integer, bigint, text[], text, jsonb),
	infer_submit(text, text, text, integer, double precision, double precision, integer, bigint, text[], text, jsonb),
	infer_result(bigint, boolean),
	infer_cancel(bigint),
	infer_count_tokens(text, text),
	infer_tokenize(text, text),
	infer_render(jsonb, text),
	infer_models_list(),
	infer_health()
FROM PUBLIC;

-- who watches the server may watch the engine
GRANT EXECUTE ON FUNCTION infer_models_list(), infer_health() TO pg_monitor;
GRANT SELECT ON infer_models TO pg_monitor;
