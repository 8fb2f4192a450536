-- Removes what pacer-managed.sql made, sources and schedule included.
--
-- Nothing else goes along: where a column default or a view of yours uses the functions,
-- this fails, says which, and changes nothing.

DO $$
DECLARE
	f regprocedure;
BEGIN
	IF EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'pg_pacer') THEN
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = 'the extension pg_pacer is installed in this database',
			HINT = 'Use DROP EXTENSION pg_pacer.';
	END IF;
	DROP VIEW IF EXISTS pacer.status;
	DROP TRIGGER IF EXISTS source_check ON pacer.source;
	DROP TRIGGER IF EXISTS source_made ON pacer.source;
	DROP TRIGGER IF EXISTS source_gone ON pacer.source;
	DROP TRIGGER IF EXISTS source_emptied ON pacer.source;
	FOR f IN SELECT oid FROM pg_catalog.pg_proc WHERE pronamespace = to_regnamespace('pacer') LOOP
		EXECUTE format('DROP FUNCTION %s', f);
	END LOOP;
	DROP TYPE IF EXISTS pacer._schedule;
	DROP TYPE IF EXISTS pacer.booking;
	DROP TABLE IF EXISTS pacer.source;
	DROP TABLE IF EXISTS pacer.recent;
	DROP TABLE IF EXISTS pacer.slot;
	DROP SCHEMA IF EXISTS pacer;
END
$$;
