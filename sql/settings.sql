-- every setting, as a DBA sees it
SELECT name, vartype, context, unit, min_val, max_val, boot_val FROM pg_settings WHERE name LIKE 'infer.%' ORDER BY name;
SELECT count(*) FROM pg_settings WHERE name LIKE 'infer.%' AND (short_desc = '' OR short_desc !~ '\.$');

-- the prefix is reserved, and what makes no sense is refused
SET infer.temprature = 1;
SET infer.temperature = 11;
SET infer.on_error = 'maybe';
SET infer.model = 'a name that is far too long for a model, longer than sixty-three bytes';
ALTER SYSTEM SET infer.models = 'a';
ALTER SYSTEM SET infer.models = 'a=../b';
ALTER SYSTEM SET infer.models = '=b';
ALTER SYSTEM SET infer.models = 'a=';
ALTER SYSTEM SET infer.models = 'a=b.gguf, ab=b.gguf, a =c.gguf';
ALTER SYSTEM SET infer.slot_size = '33kB';
SET infer.request_slots = 10;

-- no name needs quotes
SET infer.model = '';
SET infer.prefetch TO 0;
SET infer.batch = on;
SET infer.timeout = '1min';
SET infer.priority = -3;
SET infer.retries = 0;
