#!/usr/bin/env python3
"""
nonsense.py - every function of the schema with whatever may be written there, by every kind of role

    tests/nonsense/nonsense.py [--statements N] [--seed S]

Wants a server (PGHOST, ...) with pg_pacer installed, and a superuser; uses a database and
roles of its own. The functions and their parameters are read from pg_proc, the tables from
pg_attribute, so what is added to the schema is tried without being named here. The statements
come from the seed alone; it is printed, and a statement that shows a defect is, too.

What must hold
  - no statement ends with an internal error (XX...), nobody loses its session, the server stays up;
  - a role without rights leaves no trace: every row of pacer.* is the version it was (state is
    changed in place by functions), no object, role or grant appears;
  - the verbs that are the owner's fail for everybody else;
  - that was no idle run: every function has answered and has refused.

Each statement stands on a line of its own, so psql's line number tells which one failed.
"""

import argparse
import collections
import os
import random
import re
import subprocess
import sys
import time

DATABASE = "nonsense"
OWNERS_VERBS = {"create_source", "drop_source", "advance", "rewind"}
SESSION = 500                       # statements
TIMEOUT_MS = 20                     # nobody waits: acquire() is cancelled

SOURCES = {                         # name: columns beside it
    "plain": "start_interval => '1 ms'",
    "slow": "start_interval => '1 h', max_waiting => 3",
    "burst": "start_interval => '10 ms', burst => 5, remembered => 4",
    "quota": "start_interval => '1 us', quota => 7, quota_window => '1 s', remembered => 200",
    "both": "start_interval => '3 ms', burst => 2, quota => 3, quota_window => '50 ms', max_waiting => NULL",
    "immediate": "start_interval => '1 ms', max_waiting => 0, max_wait => '0'",
    "huge": "start_interval => '2000000000 hours'",
    "o'x \"%s\\": "start_interval => '1 ms'",
}


def literal(text):
    return "E'" + re.sub(r"[\\'\n\r\t]", lambda m: {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(m[0], "\\" + m[0]), text) + "'"


class Words:
    """Values for a parameter of a type: mostly plausible, often extreme, sometimes of another type."""

    def __init__(self, rng):
        self.rng = rng
        names = [literal(s) for s in SOURCES]
        numbers = ["0", "1", "2", "3", "-1", "4", "200", "201", "2147483647", "-2147483648"]
        self.pool = {
            "text": names * 3 + ["'restored'", "''", "' '", "'nobody'", literal("x" * 255), literal("x" * 256), literal("y" * 5000),
                                 "'%n%s'", literal("a\nb"), "'infinity'", "'1 s'", "'; DROP TABLE pacer.source'", "chr(1)",
                                 "repeat('é', 127)", "repeat('é', 128)", "repeat('z', 100000)"],
            "interval": ["'0'", "'1 us'", "'1 ms'", "'1 s'", "'1 h'", "'30 days'", "'36525 days'", "'36526 days'",
                         "'2000000000 hours'", "'-1 us'", "'1 month'", "'-1 month 30 days'", "'1 day -24 hours'",
                         "'178000000 years'", "'-178000000 years'", "'2147483647 days'", "'-2147483648 days'",
                         "'0.4 us'", "'2147483647 months 2147483647 days'", "'infinity'", "'-infinity'",
                         "make_interval(secs => 9223372036854)", "interval '1 us' * random()"],
            "integer": numbers + ["100", "(random() * 10)::int", "NULLIF(1, 1)"],
            "bigint": numbers + ["9223372036854775807", "-9223372036854775808", "4611686018427387904", "288230376151711744",
                                 "(random() * 9e18)::bigint", "(SELECT ticket FROM pacer.try_book('plain', max_wait => '1 h'))",
                                 "(SELECT ticket FROM pacer.try_book('quota', 2, '1 h', 'k'))"],
            "boolean": ["true", "false"],
            "timestamp with time zone": ["now()", "clock_timestamp()", "now() + '1 h'", "now() - '1 h'", "'infinity'", "'-infinity'",
                                         "'4713-11-24 00:00:00+00 BC'", "'294276-12-31 23:59:59.999999+00'", "'2000-01-01 00:00:00+00'",
                                         "'2000-01-01 00:00:00.000001+00'", "'epoch'", "now() + '200000 years'"],
            "pacer.booking": ["(SELECT b FROM pacer.try_book('plain', max_wait => '1 h') b)", "pacer.peek('slow')",
                              "(SELECT b FROM pacer.try_book('burst', 2, '1 h', 'b') b)",
                              "ROW('plain', 1, now(), '0', 0)::pacer.booking", "ROW(NULL, NULL, NULL, NULL, NULL)::pacer.booking",
                              "ROW('nobody', 9223372036854775807, 'infinity', '-1 s', 'NaN')::pacer.booking",
                              "ROW('quota', -1, '-infinity', '1 month', '-Infinity')::pacer.booking",
                              "ROW('plain', NULL, now() + '1 h', NULL, NULL)::pacer.booking"],
            "double precision": ["0", "'NaN'", "'Infinity'", "'-Infinity'", "1e308", "-1e-308"],
            "pg_lsn": ["'0/0'", "'FFFFFFFF/FFFFFFFF'", "'0/1'"],
            "bytea": ["''", "decode(repeat('00', 128), 'hex')", "decode(repeat('ff', 1024), 'hex')", "decode(repeat('5a', 6400), 'hex')"],
        }
        self.everything = sorted({v for values in self.pool.values() for v in values})

    def of(self, wanted):
        dice = self.rng.random()
        if dice < 0.08:
            return "NULL"
        if dice < 0.12:
            return "NULL::" + wanted if wanted in self.pool else "NULL"
        if dice < 0.20 or wanted not in self.pool:
            value = self.rng.choice(self.everything)
            return value if self.rng.random() < 0.5 or wanted not in self.pool else "CAST(%s AS %s)" % (value, wanted)
        return self.rng.choice(self.pool[wanted])


class Generator:
    def __init__(self, rng, functions, columns):
        self.rng = rng
        self.words = Words(rng)
        self.functions = functions
        self.columns = columns

    def call(self):
        """A call, and which function it is meant for."""
        name, types, names, needed = self.rng.choice(self.functions)
        count = self.rng.randint(needed, len(types)) if self.rng.random() < 0.97 else self.rng.randint(0, len(types) + 1)
        args = [self.words.of(types[i] if i < len(types) else "text") for i in range(count)]
        if names and count <= len(types) and self.rng.random() < 0.2:
            order = list(range(count))
            self.rng.shuffle(order)
            args = ["%s => %s" % (names[i], args[i]) for i in order]
        return name, "pacer.%s(%s)" % (name, ", ".join(args))

    def about_a_table(self):
        """Straight at the tables, views and sequences: mostly forbidden, and then it must be."""
        rng = self.rng
        table = rng.choice(list(self.columns))
        columns = self.columns[table]
        some = rng.sample(columns, min(len(columns), rng.randint(1, 4)))
        value = {name: self.words.of(kind) for name, kind in some}
        where = "true" if rng.random() < 0.1 else "%s = %s" % (some[0][0], self.words.of(some[0][1]))
        return rng.choice([
            "INSERT INTO pacer.%s (%s) VALUES (%s)" % (table, ", ".join(value), ", ".join(value.values())),
            "INSERT INTO pacer.%s (%s) VALUES (%s) ON CONFLICT DO NOTHING" % (table, ", ".join(value), ", ".join(value.values())),
            "INSERT INTO pacer.source (name, start_interval) VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET start_interval = %s"
            % tuple(self.words.of(k) for k in ("text", "interval", "interval")),
            "UPDATE pacer.%s SET %s WHERE %s" % (table, ", ".join("%s = %s" % v for v in value.items()), where),
            "DELETE FROM pacer.%s WHERE %s" % (table, where),
            "SELECT count(*) FROM pacer.%s WHERE %s" % (table, where),
            "SELECT %s FROM pacer.%s ORDER BY 1 LIMIT 3 FOR UPDATE" % (some[0][0], table),
            "COPY pacer.%s TO STDOUT" % table,
            "TRUNCATE pacer.%s" % table,
            "LOCK TABLE pacer.%s IN ACCESS EXCLUSIVE MODE NOWAIT" % table,
            "SELECT %s('pacer.run_mark')" % rng.choice(["nextval", "lastval", "currval"]),
            "SELECT setval('pacer.%s', %s)" % (rng.choice(["run_mark", "source_source_id_seq"]), self.words.of("bigint")),
        ])

    def restored(self):
        """A state as a dump might bring it, with anything in it; the triggers let it in as they would a real one."""
        rng = self.rng
        remembered = rng.choice([4, 5, 200])
        value = {name: self.words.of(kind) for name, kind in self.columns["slot"]
                 if name not in ("slot_id", "layout", "remembered", "recent") and rng.random() < 0.4}
        value.update(slot_id="1000000", remembered=str(remembered), recent="decode(repeat('%s', %d), 'hex')" %
                     (rng.choice(["00", "ff", "5a", "01"]), 32 * remembered))
        return "DELETE FROM pacer.source WHERE source_id = 1000000; DELETE FROM pacer.slot WHERE slot_id = 1000000; " \
               "INSERT INTO pacer.slot (%s) VALUES (%s); " % (", ".join(value), ", ".join(value.values())) + \
               "INSERT INTO pacer.source (name, start_interval, burst, quota, quota_window, remembered, source_id) " \
               "VALUES ('restored', %s, %d, %s, %d, 1000000)" % (
                   self.words.of("interval"), rng.choice([1, 1, 3]), rng.choice(["NULL, NULL", "2, '1 s'"]), remembered)

    def about_the_schema(self):
        """What a role without rights must not be able to do to it."""
        return self.rng.choice([
            "CREATE TABLE pacer.mine ()", "CREATE FUNCTION pacer.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "CREATE TABLE public.mine ()", "CREATE TEMP TABLE mine ()", "DROP EXTENSION pg_pacer CASCADE", "DROP VIEW pacer.status",
            "ALTER TABLE pacer.slot DISABLE TRIGGER ALL", "ALTER TABLE pacer.source ADD mine int", "ALTER EXTENSION pg_pacer UPDATE",
            "GRANT ALL ON pacer.slot TO PUBLIC", "ALTER FUNCTION pacer.book OWNER TO CURRENT_USER", "SET session_replication_role = replica",
            "CREATE RULE r AS ON SELECT TO pacer.status DO INSTEAD SELECT 1", "ALTER SEQUENCE pacer.run_mark RESTART",
            "CREATE TRIGGER t BEFORE INSERT ON pacer.source EXECUTE FUNCTION pacer.source_gone()",
            "CREATE OPERATOR public.+ (FUNCTION = pacer.every, LEFTARG = int, RIGHTARG = interval)",
            "SET pg_pacer.reserve_ahead = 0", "SET pg_pacer.clock_tolerance = '1 h'", "VACUUM FULL pacer.slot", "CLUSTER pacer.slot USING slot_pkey",
            "REINDEX TABLE pacer.source", "COMMENT ON FUNCTION pacer.book IS 'mine'", "SECURITY LABEL ON TABLE pacer.slot IS 'mine'",
        ])

    def statement(self, privileged):
        rng = self.rng
        dice = rng.random()
        if dice < 0.12:
            return None, self.about_a_table() if not privileged or dice < 0.06 else self.restored()
        if dice < 0.15 and not privileged:
            return None, self.about_the_schema()
        name, call = self.call()
        other = self.call()[1]
        number = rng.randint(0, 3)
        shape = rng.choice([
            "SELECT {c}", "SELECT {c}", "SELECT {c}", "SELECT * FROM {c}", "SELECT * FROM {c}", "SELECT * FROM {c} AS r WHERE r IS NULL",
            "SELECT ({c}).*", "SELECT {c} FROM generate_series(1, {n})", "SELECT g, r FROM generate_series(1, {n}) g, LATERAL {c} r",
            "SELECT {c}, {d}", "SELECT 1 WHERE ({c})::text = {d}::text", "SELECT count(*) FROM (SELECT {c}) q", "WITH q AS MATERIALIZED (SELECT {c} x) SELECT * FROM q, q r",
            "VALUES ({c}), ({c})", "SELECT coalesce({c}, NULL)", "SELECT CASE WHEN random() < 0.5 THEN {c}::text ELSE {d}::text END", "TABLE pacer.status",
            "SELECT array_agg(x) FROM (SELECT {c} x) q", "SELECT {c} OVER ()", "SELECT ALL {c} ORDER BY 1 LIMIT {n}", "COPY (SELECT {c}) TO STDOUT (FORMAT binary)",
            "BEGIN READ ONLY; SELECT {c}; COMMIT", "BEGIN; SELECT {c}; ROLLBACK", "BEGIN; SAVEPOINT s; SELECT {c}; ROLLBACK TO s; SELECT {d}; COMMIT",
            "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT {c}; SELECT {d}; COMMIT",
            "PREPARE p AS SELECT {c}; EXECUTE p; EXECUTE p; DEALLOCATE p",
            "BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT {c}; FETCH 1 FROM c; COMMIT; CLOSE c", "EXPLAIN (ANALYZE, COSTS off) SELECT {c}",
            "DO $x$ BEGIN FOR i IN 1..{n} LOOP BEGIN PERFORM {c}; EXCEPTION WHEN OTHERS THEN IF SQLSTATE ~ '^XX' THEN RAISE; END IF; END; END LOOP; END $x$",
            "DO $x$ BEGIN PERFORM {c}; COMMIT; PERFORM {d}; ROLLBACK; END $x$",
            "SELECT {c} FROM pacer.status", "CALL {c}", "SELECT * FROM ROWS FROM ({c}, {d}) WITH ORDINALITY", "DELETE FROM {c}",
        ])
        return name, shape.format(c=call, d=other, n=number)


def psql(sql, user=None, database=DATABASE, check=True):
    command = ["psql", "-XAtq", "-d", database, "-v", "ON_ERROR_STOP=1"] + (["-U", user] if user else [])
    done = subprocess.run(command + ["-f", "-"], input=sql, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if check and done.returncode != 0:
        sys.exit("nonsense: could not prepare: " + done.stderr)
    return done.stdout


CREATE_SOURCES = " ".join("SELECT pacer.create_source(%s, %s, if_not_exists => true);" % (literal(name), columns)
                          for name, columns in SOURCES.items())


def prepare():
    psql("DROP DATABASE IF EXISTS %s" % DATABASE, database="postgres")
    psql("CREATE DATABASE %s TEMPLATE template0 ENCODING 'UTF8'" % DATABASE, database="postgres")
    for role in ("nonsense_none", "nonsense_user", "nonsense_admin"):
        psql("DROP ROLE IF EXISTS %s" % role, database="postgres")
    psql("""
        CREATE EXTENSION pg_pacer;
        CREATE ROLE nonsense_none LOGIN; CREATE ROLE nonsense_user LOGIN; CREATE ROLE nonsense_admin LOGIN SUPERUSER;
        GRANT USAGE ON SCHEMA pacer TO nonsense_user;
        REVOKE CREATE, TEMP ON DATABASE %s FROM PUBLIC;
        REVOKE CREATE ON SCHEMA public FROM PUBLIC;
        """ % DATABASE + CREATE_SOURCES)


def read_catalogue():
    """Functions as (name, types, parameter names, how many are needed), tables with their columns."""
    functions = []
    for line in psql("""
            SELECT p.proname, p.pronargs - p.pronargdefaults, prorettype = 'trigger'::regtype,
                   coalesce((SELECT string_agg(format_type(t, NULL), ',' ORDER BY n) FROM unnest(p.proargtypes) WITH ORDINALITY a(t, n)), ''),
                   coalesce((SELECT string_agg(a, ',' ORDER BY n) FROM unnest(p.proargnames) WITH ORDINALITY x(a, n) WHERE n <= p.pronargs), '')
            FROM pg_proc p WHERE pronamespace = 'pacer'::regnamespace ORDER BY p.oid""").splitlines():
        name, needed, trigger, types, names = line.split("|")
        functions.append((name, types.split(",") if types else [], names.split(",") if names else [], int(needed), trigger == "t"))
    columns = collections.defaultdict(list)
    for line in psql("""
            SELECT relname, attname, format_type(atttypid, NULL) FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid
            WHERE relnamespace = 'pacer'::regnamespace AND relkind IN ('r', 'v') AND attnum > 0 ORDER BY attrelid, attnum""").splitlines():
        table, column, kind = line.split("|")
        columns[table].append((column, kind))
    return functions, columns


def trace():
    """What a role without rights must leave as it is. State is changed in place: the row's version stays."""
    return psql("""
        SELECT 'source', s.*, ctid, xmin, xmax FROM pacer.source s ORDER BY name;
        SELECT 'slot', slot_id, layout, remembered, ctid, xmin FROM pacer.slot ORDER BY slot_id;
        SELECT 'class', oid, relname, relacl, relowner, relkind, relhastriggers, relhasrules FROM pg_class WHERE oid >= 16384 ORDER BY oid;
        SELECT 'proc', oid, xmin, proname, proacl, proowner FROM pg_proc WHERE oid >= 16384 ORDER BY oid;
        SELECT 'trigger', oid, tgname, tgenabled FROM pg_trigger ORDER BY oid;
        SELECT 'namespace', oid, nspname, nspacl FROM pg_namespace ORDER BY oid;
        SELECT 'role', oid, rolname, rolsuper FROM pg_authid ORDER BY oid;
        SELECT 'members', roleid, member FROM pg_auth_members ORDER BY 2, 3;
        SELECT 'setting', * FROM pg_db_role_setting ORDER BY 2, 3;
        SELECT 'large object', oid FROM pg_largeobject_metadata;
        SELECT 'sequence', last_value FROM pacer.source_source_id_seq;
        SELECT 'extension', oid, extversion FROM pg_extension ORDER BY oid;
        SELECT 'prepared', * FROM pg_prepared_xacts;
        """)


class Run:
    """The statements of one role, in sessions of some hundred."""

    def __init__(self, role, generator, privileged):
        self.role, self.generator, self.privileged = role, generator, privileged
        self.states = collections.Counter()
        self.answered, self.refused = collections.Counter(), collections.Counter()
        self.wrong = []

    def lines(self, count):
        yield None, "SET statement_timeout = %d; SET extra_float_digits = 1; SET client_min_messages = error;" % TIMEOUT_MS
        for number in range(count):
            if self.privileged and number % 100 == 0:
                # what was deleted, driven to the end of time or paused for ever begins again
                yield None, "DELETE FROM pacer.source; DELETE FROM pacer.slot; " \
                    "SELECT setval('pacer.source_source_id_seq', 1); " + CREATE_SOURCES
            name, statement = self.generator.statement(self.privileged)
            yield name, statement + ";"
            yield None, "ROLLBACK;" if statement.startswith("BEGIN") else ""

    def session(self, count):
        lines = list(self.lines(count))
        # the state of each error, by line; "FATAL" and a lost connection by psql's own words
        done = subprocess.run(["psql", "-Xq", "-d", DATABASE, "-U", self.role, "-v", "VERBOSITY=sqlstate", "-o", "/dev/null", "-f", "-"],
                              input="\n".join(text for _, text in lines) + "\n\\echo came to the end\n", text=True, errors="replace",
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        failed = {}
        for message in re.finditer(r"^psql:[^:\n]*:(\d+): (?:ERROR|FATAL|PANIC): +([0-9A-Z]{5})", done.stderr, re.M):
            failed.setdefault(int(message[1]) - 1, []).append(message[2])
        if "came to the end" not in done.stdout or re.search(r"connection .*lost|terminated abnormally|FATAL|PANIC", done.stderr):
            last = max(failed, default=0)
            self.wrong.append("the session was lost after line %d: %s\n  %s" % (last, lines[last][1], done.stderr[-500:]))
        for number, (name, text) in enumerate(lines):
            states = failed.get(number, [])
            for state in states:
                self.states[state] += 1
                if state.startswith("XX"):
                    self.wrong.append("%s: %s" % (state, text))
            if name is None:
                continue
            if states:
                self.refused[name] += 1
            else:
                self.states["00000"] += 1
                self.answered[name] += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--statements", type=int, default=100000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    args = parser.parse_args()
    rng = random.Random(args.seed)
    start = time.monotonic()
    bad = []

    print("# seed %d" % args.seed)
    prepare()
    catalogue, columns = read_catalogue()
    # a trigger's function is called as often as two others together
    functions = [f[:4] for f in catalogue if not f[4]]
    triggers = [f[:4] for f in catalogue if f[4]]
    generator = Generator(rng, functions * 4 + triggers[:len(functions)], columns)
    names = {f[0] for f in functions}

    runs = [Run("nonsense_none", generator, False), Run("nonsense_user", generator, False), Run("nonsense_admin", generator, True)]
    shares = [args.statements // 10, args.statements // 2, args.statements - args.statements // 10 - args.statements // 2]
    for run, share in zip(runs, shares):
        before = None if run.privileged else trace()
        while share > 0:
            # what pauses and bookings have driven to the end of time begins again, in place
            psql("SELECT pacer.rewind(name), pacer.resume(name) FROM pacer.source")
            run.session(min(share, SESSION))
            share -= SESSION
        if before is not None and before != trace():
            after = set(trace().splitlines())
            bad.append("%s left a trace: %s" % (run.role, sorted(after ^ set(before.splitlines()))[:5]))
        bad += ["%s: %s" % (run.role, w) for w in run.wrong[:5]]
        print("# %s: %s" % (run.role, ", ".join("%s %d" % s for s in run.states.most_common(12))))
    none, user, admin = runs
    allowed = [n for n in OWNERS_VERBS if psql("SELECT bool_or(has_function_privilege('nonsense_user', oid, 'EXECUTE')) FROM pg_proc "
                                               "WHERE pronamespace = 'pacer'::regnamespace AND proname = '%s'" % n).strip() != "f"]
    bad += ["%s may be called by anybody" % n for n in allowed]
    if sum(none.answered.values()) - none.answered["every"] > 0 and psql("SELECT 1").strip() == "1":
        # without USAGE nothing of the schema can be named, a TABLE or CASE that never calls aside
        called = [n for n in none.answered if none.answered[n] > max(none.refused[n], 10)]
        bad += ["%s was answered without USAGE" % n for n in called]
    if args.statements >= 5000:
        bad += ["%s was never answered" % n for n in names if not admin.answered[n] + user.answered[n]]
        bad += ["%s was never refused" % n for n in names if not admin.refused[n] + user.refused[n]]
    for line in bad:
        print("# " + line.replace("\n", "\n# "))
    print("%sok - %d statements of nonsense (%d s)" % ("not " if bad else "", args.statements, time.monotonic() - start))
    return 1 if bad else 0


if __name__ == "__main__":
    os.environ.setdefault("PGCLIENTENCODING", "UTF8")
    sys.exit(main())
