-- Moves the sources and the schedule of the extension pg_pacer to pacer-managed.sql, whole
-- or not at all:
--
--     psql -d DATABASE -f pacer-to-managed.sql
--
-- What is granted stays.  Callers that wait are as after a crash: a ticket is no longer
-- known, so release() answers unknown; confirm() goes by the slot.
\set ON_ERROR_STOP on
BEGIN;
SET LOCAL client_min_messages = warning;
LOCK TABLE pacer.source, pacer.slot IN ACCESS EXCLUSIVE MODE;
\ir pacer-grants.psql

CREATE TEMP TABLE pacer_source ON COMMIT DROP AS TABLE pacer.source;
CREATE TEMP TABLE pacer_slot ON COMMIT DROP AS
	SELECT s.slot_id, s.remembered, coalesce(st.next_request_at, '2000-01-01 00:00:00+00') AS next_request_at,
		CASE WHEN s.start_reach_us < 1000000000000000
			THEN least(st.next_request_at, clock_timestamp() + s.start_reach_us * interval '1 microsecond')
			ELSE st.next_request_at END AS next_start,
		s.paused_until, s.quota_start, s.quota_window_us,
		CASE WHEN st.run_ok THEN s.quota_used ELSE s.quota_reserved END AS quota_used, s.logged_at
	  FROM pacer.slot s
	  JOIN pacer.source c ON c.source_id = s.slot_id
	  JOIN pacer.status st ON st.name = c.name;
DROP EXTENSION pg_pacer;
DROP SCHEMA IF EXISTS pacer;
\ir pacer-managed.sql

INSERT INTO pacer.slot (slot_id, remembered, next_request_at, next_start, start_floor, unseen_until, tail_unseen,
						paused_until, quota_start, quota_window_us, quota_used, clock_wall)
	SELECT slot_id, remembered, pacer._us(next_request_at), coalesce(pacer._us(next_start), 0), coalesce(pacer._us(next_start), 0),
		pacer._us(next_request_at), true,
		CASE paused_until WHEN 'infinity' THEN 9223372036854775807 ELSE pacer._us(paused_until) END,
		pacer._us(quota_start), quota_window_us, quota_used, pacer._us(logged_at)
	  FROM pacer_slot;
INSERT INTO pacer.source (name, start_interval, burst, max_waiting, max_wait, remembered, quota, quota_window, quota_origin, source_id)
	SELECT name, start_interval, burst, max_waiting, max_wait, remembered, quota, quota_window, quota_origin, source_id
	  FROM pacer_source;
SELECT setval('pacer.source_source_id_seq', coalesce(max(source_id), 0) + 1, false) FROM pacer_source \g /dev/null
SELECT command FROM pacer_grants \gexec
COMMIT;
