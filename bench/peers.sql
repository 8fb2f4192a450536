-- What people write by hand, each with the locks of its own kind.
CREATE EXTENSION pg_pacer;
CREATE SCHEMA peer;
CREATE FUNCTION peer.row(source text, permits int DEFAULT 1, max_wait interval DEFAULT NULL, key text DEFAULT NULL)
	RETURNS SETOF pacer.booking ROWS 1 VOLATILE LANGUAGE C AS 'pacer_peer', 'peer_row';
CREATE SEQUENCE peer.seq;
CREATE TABLE peer.source (name text PRIMARY KEY, next_at timestamptz NOT NULL, start_interval interval NOT NULL)
	WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
INSERT INTO peer.source VALUES ('hot', now(), '1 us'), ('upsert', now(), '1 us'), ('locked', now(), '1 us'), ('advisory', now(), '1 us'), ('held', now(), '1 us');
CREATE TABLE peer.bucket (name text PRIMARY KEY, tokens float8 NOT NULL, filled_at timestamptz NOT NULL)
	WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- a token bucket as it is written in PL/pgSQL: seconds to wait
CREATE FUNCTION peer.take(source text, rate float8, size float8) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	left_over float8;
BEGIN
	INSERT INTO peer.bucket AS b VALUES (source, size - 1, clock_timestamp())
	ON CONFLICT (name) DO UPDATE SET
		tokens = least(size, b.tokens + rate * extract(epoch FROM clock_timestamp() - b.filled_at)) - 1,
		filled_at = clock_timestamp()
	RETURNING tokens INTO left_over;
	RETURN greatest(0, -left_over / rate);
END $$;

INSERT INTO pacer.source (name, start_interval, max_waiting) VALUES ('hot', '1 us', NULL), ('held', '1 us', NULL);
INSERT INTO pacer.source (name, start_interval, max_waiting, burst, quota, quota_window)
	VALUES ('rules', '1 us', 100, 5, 2000000000, '1 day');
