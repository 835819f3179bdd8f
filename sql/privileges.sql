-- nobody but the owner may use the extension until it is granted
SELECT p.oid::regprocedure::text AS open_to_public
FROM pg_proc p
JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'infer'
WHERE p.proacl IS NULL OR EXISTS (SELECT 1 FROM aclexplode(p.proacl) a WHERE a.grantee = 0);

CREATE ROLE regress_infer_user;
SET ROLE regress_infer_user;
\set VERBOSITY terse
SELECT infer_generate('x');
SELECT infer_generate_detail('x');
SELECT * FROM infer_stream('x');
SELECT infer_chat('[]');
SELECT * FROM infer_batch('{x}');
SELECT infer_submit('x');
SELECT infer_result(1);
SELECT infer_cancel(1);
SELECT infer_count_tokens('x');
SELECT infer_tokenize('x');
SELECT infer_render('[]');
SELECT infer_health();
SELECT * FROM infer_models;
-- what chooses files, memory or limits is not for a user to set; nor is a higher priority
SET infer.models = 'a=b';
SET infer.max_session_requests = 10;
SET infer.priority = 5;
SHOW infer.model_directory;
RESET ROLE;

GRANT EXECUTE ON FUNCTION infer_generate TO regress_infer_user;
SET ROLE regress_infer_user;
SELECT infer_generate('Hello', max_tokens => 2) IS NOT NULL AS answered;
RESET ROLE;
GRANT pg_monitor TO regress_infer_user;
SET ROLE regress_infer_user;
SELECT name, state FROM infer_models;
SELECT infer_health() ->> 'ready' AS ready;
RESET ROLE;
REVOKE EXECUTE ON FUNCTION infer_generate FROM regress_infer_user;
DROP ROLE regress_infer_user;

-- everything has a comment
SELECT pg_describe_object(d.classid, d.objid, 0) AS without_comment
FROM pg_depend d JOIN pg_extension e ON d.refobjid = e.oid AND e.extname = 'infer'
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
  AND obj_description(d.objid, d.classid::regclass::text) IS NULL;

-- volatility, cost, parallel safety, and that NULLs reach us
SELECT p.proname, p.provolatile, p.proparallel, p.procost, p.proisstrict, p.proleakproof
FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension e ON d.refobjid = e.oid AND e.extname = 'infer' ORDER BY 1;
