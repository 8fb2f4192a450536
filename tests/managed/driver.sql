-- The schedule of sql/pacer-managed.sql behind the lines of tests/model/driver.c, for
-- tests/model/torture.py --managed: model.say() takes one line and answers one.

CREATE SCHEMA model;

CREATE FUNCTION model.configure(n numeric[]) RETURNS void
LANGUAGE plpgsql SET session_replication_role = replica AS $$
BEGIN
	-- as it is: the bounds of a window are the trigger's, not the arithmetic's
	UPDATE pacer.source SET
		start_interval = pacer._interval(n[1]::int8), burst = n[2], max_waiting = nullif(n[3], -1),
		max_wait = CASE WHEN n[4] >= 0 THEN pacer._interval(least(n[4], 9223372036854775807)::int8) END,
		quota = nullif(n[5], 0), quota_window = CASE WHEN n[5] > 0 THEN pacer._interval(n[6]::int8) END,
		quota_origin = pacer._time(n[7]::int8)
	 WHERE name = 'model';
END
$$;

CREATE FUNCTION model.state(wall int8, mono int8) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	q pacer._schedule := pacer._load((SELECT source_id FROM pacer.source WHERE name = 'model'));
BEGIN
	q.now := wall;
	RETURN concat_ws(' ', ' |', q.next_request_at, q.next_start, q.start_floor, q.paused_until, q.quota_start, q.quota_used,
		pacer._waiting(q), coalesce(pacer._quota_left(q), -1), q.older_count, q.older_since, q.older_until,
		'| 0', q.next_request_at, q.quota_used, 9223371331199999999, q.clock_wall, q.clock_wall, mono, 0,
		'|', (SELECT concat_ws(' ', count(*), string_agg(concat_ws(' ', ticket, state, permits, slot, width, assigned::int), ' ' ORDER BY pos))
				FROM pacer.recent WHERE slot_id = q.slot_id));
END
$$;

CREATE FUNCTION model.say(line text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	verb text := split_part(line, ' ', 1);
	n numeric[] := string_to_array(trim(substr(line, length(split_part(line, ' ', 1)) + 2)), ' ');
	arg int8[];
	answers text[] := '{ok,full,too_long,paused,overflow,over_quota,key_differs,not_held}';
	told text;
	q pacer._schedule;
BEGIN
	IF verb = 'init' THEN
		DELETE FROM pacer.source;
		PERFORM pacer.create_source('model', '1 s', remembered => n[1]::int4);
		RETURN 'init';
	ELSIF verb = 'cfg' THEN
		PERFORM model.configure(n);
		RETURN 'cfg';
	END IF;
	arg := n[5:];
	BEGIN
		q := pacer._enter('model', verb, n[1]::int8);
		q := CASE verb
			WHEN 'book' THEN pacer._book(q, arg[1]::int4, nullif(arg[2], -1), nullif(arg[3], 0), arg[4])
			WHEN 'release' THEN pacer._release(q, arg[1])
			WHEN 'confirm' THEN pacer._confirm(q, arg[1], arg[2])
			WHEN 'pause' THEN pacer._pause(q, arg[1])
			WHEN 'resume' THEN pacer._resume(q)
			WHEN 'advance' THEN pacer._advance(q, arg[1])
			WHEN 'rewind' THEN pacer._rewind(q, arg[1]) END;
		IF verb = 'release' THEN
			told := array_position('{released,started,passed,unknown}', q.answer) - 1;
			q.answer := 'ok';
		ELSE
			told := array_position(answers, q.answer) - 1;
		END IF;
		IF verb = 'book' THEN
			told := concat_ws(' ', told, q.ticket, q.slot, q.started::int);
		ELSIF verb = 'confirm' THEN
			told := concat_ws(' ', told, q.slot - q.now);
		END IF;
		-- a call that is not answered "ok" leaves nothing
		IF q.answer <> 'ok' THEN
			RAISE EXCEPTION USING ERRCODE = 'PC999';
		END IF;
		PERFORM pacer._leave(q);
	EXCEPTION WHEN SQLSTATE 'PC999' THEN
		NULL;
	END;
	RETURN told || model.state(n[1]::int8, n[2]::int8);
END
$$;
