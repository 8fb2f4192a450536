-- Moves the sources and the schedule of pacer-managed.sql to the extension pg_pacer, whole
-- or not at all:
--
--     psql -d DATABASE -f pacer-to-extension.sql
--
-- It takes the rights that CREATE EXTENSION takes.  What is granted stays.  Callers that
-- wait are as after a crash: a ticket is no longer known, so release() answers unknown;
-- confirm() goes by the slot.
\set ON_ERROR_STOP on
BEGIN;
SET LOCAL client_min_messages = warning;
LOCK TABLE pacer.source, pacer.slot IN ACCESS EXCLUSIVE MODE;
\ir pacer-grants.psql

CREATE TEMP TABLE pacer_source ON COMMIT DROP AS TABLE pacer.source;
CREATE TEMP TABLE pacer_slot ON COMMIT DROP AS
	SELECT s.slot_id, s.remembered, pacer._time(s.next_request_at) AS reserved_until,
		pacer._time(s.paused_until) AS paused_until, pacer._time(s.quota_start) AS quota_start,
		s.quota_window_us, s.quota_used AS quota_reserved,
		-- how far a start reaches: the burst, and the widest booking
		least(pacer._us(c.start_interval) * (c.burst - 1) + greatest(pacer._us(c.start_interval), r.width),
			  9223371331199999999)::int8 AS start_reach_us,
		pacer._time(s.clock_wall) AS logged_at
	  FROM pacer.slot s
	  JOIN pacer.source c ON c.source_id = s.slot_id
	  LEFT JOIN (SELECT slot_id, max(width) AS width FROM pacer.recent GROUP BY slot_id) r USING (slot_id);
\ir pacer-managed-uninstall.sql

CREATE EXTENSION pg_pacer;
INSERT INTO pacer.slot (slot_id, remembered, recent, reserved_until, paused_until, quota_start, quota_window_us,
						quota_reserved, start_reach_us, logged_at)
	SELECT slot_id, remembered, decode(repeat('00', 32 * remembered), 'hex'), reserved_until, paused_until,
		quota_start, quota_window_us, quota_reserved, start_reach_us, logged_at
	  FROM pacer_slot;
INSERT INTO pacer.source (name, start_interval, burst, max_waiting, max_wait, remembered, quota, quota_window, quota_origin, source_id)
	SELECT name, start_interval, burst, max_waiting, max_wait, remembered, quota, quota_window, quota_origin, source_id
	  FROM pacer_source;
SELECT setval('pacer.source_source_id_seq', coalesce(max(source_id), 0) + 1, false) FROM pacer_source \g /dev/null
SELECT command FROM pacer_grants \gexec
COMMIT;
