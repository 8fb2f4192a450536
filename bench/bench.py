"""
bench.py [QUESTION...] - asks the questions, keeps every raw number

Run by bench.sh. Every subject of a question runs in turn for a second or so,
several times over, in one go: timings of a shared machine mean something only side
by side. Printed are medians, and what they are of the first subject.

  question   about seconds
  hot        240   one hot source, 1 to 64 clients, beside its peers
  age         60   after 10,000,000 bookings
  held        90   while others hold snapshots and row locks
  reserve     60   flushes and reserve_ahead
  pooler      20   through PgBouncer in transaction mode
  managed    140   the edition in plain SQL
  starts      40   how exactly callers start
  rest        40   release, confirm, refusals, status
  client      60   the command, and a thousand that wait
  sources    150   1, 1,000 and 1,000,000 of them
"""
import contextlib
import csv
import glob
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

BENCH = os.environ['BENCH']
ROUNDS = int(os.environ.get('ROUNDS', 5))
SECONDS = int(os.environ.get('SECONDS_EACH', 1))
HERE = os.path.dirname(os.path.abspath(__file__))
results = []


# ---- keeping and printing -------------------------------------------------------------

def record(question, subject, case, unit, value, nth=1):
    results.append((question, subject, str(case), unit, nth, value))


def median(question, subject, case, unit):
    values = [r[5] for r in results if r[:4] == (question, subject, str(case), unit)]
    return statistics.median(values) if values else None


def table(question, subjects, cases, unit, of=None):
    """medians, a line per subject, a column per case; and as a share of one of them"""
    print(f"\n{question}: {unit}, medians of {ROUNDS}" + (f' (share of {of})' if of else ''))
    print(' ' * 18 + ''.join(f'{case:>20}' for case in cases))
    for subject in subjects:
        cells = ''
        for case in cases:
            value = median(question, subject, case, unit)
            base = median(question, of, case, unit) if of else None
            text = '-' if value is None else f'{value:,.0f}' if abs(value) >= 100 else f'{value:.3g}'
            if value is not None and base:
                text += f' ({value / base:.2f})'
            cells += f'{text:>20}'
        print(f'{subject:<18}{cells}')
    sys.stdout.flush()


def save(question):
    with open(f'{BENCH}/results/{question}.csv', 'w', newline='') as f:
        out = csv.writer(f, lineterminator='\n')
        out.writerow(('question', 'subject', 'case', 'unit', 'round', 'value'))
        out.writerows(r[:5] + (f'{r[5]:.6g}',) for r in results if r[0] == question)


# ---- the servers ----------------------------------------------------------------------

def sql(text, **more):
    return subprocess.run(['psql', '-XAtq', '-v', 'ON_ERROR_STOP=1'], input=text, text=True, check=True,
                          stdout=subprocess.PIPE, **more).stdout.strip()


def number(text):
    return float(sql(text))


class Session:
    """somebody else's session, that stays open"""

    def __init__(self, text):
        self.psql = subprocess.Popen(['psql', '-XAtq'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.psql.stdin.write(text + '\n\\echo done\n')
        self.psql.stdin.flush()
        while self.psql.stdout.readline().strip() != 'done':
            pass

    def close(self):
        self.psql.stdin.close()
        self.psql.wait()


def script(name, text):
    path = f'{BENCH}/{name}.sql'
    with open(path, 'w') as f:
        f.write(text + '\n')
    return path


def pgbench(text, clients=32, seconds=None, options=(), env=None):
    """calls a second, and the latencies of a sample of them, in ms"""
    log = f'{BENCH}/latency'
    run = subprocess.run(['pgbench', '-n', '-M', 'prepared', '-c', str(clients), '-j', '2', '-T', str(seconds or SECONDS),
                          '-l', '--log-prefix', log, '--sampling-rate', '0.05', '-f', script('query', text), *options],
                         text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    if run.returncode != 0 or 'number of failed transactions: 0 ' not in run.stdout:
        sys.exit(f'{text}: {run.stderr}{run.stdout}')
    latencies = []
    for path in glob.glob(log + '.*'):
        with open(path) as f:
            latencies += [int(line.split()[2]) / 1000 for line in f]
        os.unlink(path)
    return float(re.search(r'^tps = ([\d.]+)', run.stdout, re.M).group(1)), sorted(latencies)


def share(values, part):
    return values[min(len(values) - 1, int(len(values) * part))]


def take_turns(question, subjects, cases, measure, rounds=None):
    """measure(subject, case) -> {unit: value}"""
    for nth in range(1, (rounds or ROUNDS) + 1):
        for case in cases:
            for subject in subjects:
                for unit, value in measure(subject, case).items():
                    record(question, subject, case, unit, value, nth)


# ---- peers outside of PostgreSQL ------------------------------------------------------

def wait_for(server, command, **more):
    while subprocess.run(command, capture_output=True, **more).returncode != 0:
        if server.poll() is not None:
            sys.exit(f'{server.args[0]} did not start')
        time.sleep(0.05)


@contextlib.contextmanager
def redis(fsync):
    """a server with append-only file; answers calls a second of the Lua script"""
    folder = f'{BENCH}/redis'
    os.makedirs(folder, exist_ok=True)
    socket = f'{folder}/socket'
    server = subprocess.Popen(['redis-server', '--port', '0', '--unixsocket', socket, '--dir', folder, '--save', '',
                               '--appendonly', 'yes', '--appendfsync', fsync], stdout=subprocess.DEVNULL)
    try:
        wait_for(server, ['redis-cli', '-s', socket, 'ping'])
        with open(f'{HERE}/gcra.lua') as f:
            sha = subprocess.run(['redis-cli', '-s', socket, '-x', 'script', 'load'], stdin=f, text=True,
                                 stdout=subprocess.PIPE, check=True).stdout.strip()

        def calls(clients, n):
            out = subprocess.run(['redis-benchmark', '-s', socket, '-c', str(clients), '-n', str(n), '--csv',
                                  'EVALSHA', sha, '1', 'hot', '1'], text=True, stdout=subprocess.PIPE, check=True).stdout
            return float(out.strip().splitlines()[-1].split(',')[1].strip('"'))
        yield calls
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder)


def limiter_ready():
    """rate-limiter-flexible and pg from npm, if they can be had"""
    if not shutil.which('npm'):
        return False
    shutil.copy(f'{HERE}/limiter.js', f'{BENCH}/limiter.js')
    try:
        return subprocess.run(['npm', 'install', '--no-audit', '--no-fund', '--prefix', BENCH, 'rate-limiter-flexible@5', 'pg@8'],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def limiter(clients):
    return float(subprocess.run(['node', f'{BENCH}/limiter.js', str(clients), str(SECONDS)], text=True, check=True,
                                stdout=subprocess.PIPE, cwd=BENCH).stdout)


# ---- the questions --------------------------------------------------------------------

BY_HAND = {
    'select_1': 'SELECT 1',
    'row_only': "SELECT * FROM peer.row('hot')",
    'nextval': "SELECT nextval('peer.seq')",
    'nextslot': "SELECT pacer.nextslot('hot')",
    'book': "SELECT * FROM pacer.book('hot')",
    'book_rules': "SELECT * FROM pacer.book('rules')",
    'update': "UPDATE peer.source SET next_at = greatest(next_at, now()) + start_interval WHERE name = 'hot' RETURNING next_at - start_interval",
    'upsert': "INSERT INTO peer.source VALUES ('upsert', now(), '1 us') ON CONFLICT (name) DO UPDATE"
              " SET next_at = greatest(peer.source.next_at, now()) + excluded.start_interval RETURNING next_at",
    'for_update': "BEGIN;\nSELECT next_at FROM peer.source WHERE name = 'locked' FOR UPDATE;\n"
                  "UPDATE peer.source SET next_at = greatest(next_at, clock_timestamp()) + start_interval WHERE name = 'locked';\nCOMMIT;",
    'advisory': "BEGIN;\nSELECT pg_advisory_xact_lock(4711);\n"
                "UPDATE peer.source SET next_at = greatest(next_at, clock_timestamp()) + start_interval WHERE name = 'advisory' RETURNING next_at;\nCOMMIT;",
    'plpgsql_bucket': "SELECT peer.take('hot', 1000000, 10)",
}


def hot():
    cases = (1, 8, 32, 64)

    def measure(subject, clients):
        tps, latency = pgbench(BY_HAND[subject], clients)
        return {'a second': tps, 'p50 ms': share(latency, 0.5), 'p99 ms': share(latency, 0.99)}

    take_turns('hot', BY_HAND, cases, measure)
    others = []
    for fsync, calls in ('always', 2000), ('everysec', 50000):
        with redis(fsync) as run:
            take_turns('hot', [f'redis_{fsync}'], cases, lambda _, clients: {'a second': run(clients, calls if clients > 1 else calls // 10)})
        others.append(f'redis_{fsync}')
    if limiter_ready():
        take_turns('hot', ['rate_limiter_js'], (1, 32), lambda _, clients: {'a second': limiter(clients)})
        others.append('rate_limiter_js')
    else:
        print('rate-limiter-flexible is left out: npm could not fetch it')
    table('hot', [*BY_HAND, *others], cases, 'a second', of='select_1')
    table('hot', BY_HAND, cases, 'p99 ms', of='select_1')


def sources():
    start = time.time()
    sql("INSERT INTO pacer.source (name, start_interval, max_waiting, remembered) SELECT 's' || n, '1 us', NULL, 4 FROM generate_series(1, 1000000) n")
    record('sources', 'create', 1000000, 's', time.time() - start)
    sql('VACUUM ANALYZE pacer.source; VACUUM pacer.slot; CHECKPOINT')
    some = "\\set n random(1, :many)\nSELECT pacer.nextslot('s' || :n)"
    queries = {'select_1': ('SELECT 1', 'on'), 'nextslot': (some, 'on'), 'not durable': (some, 'off')}
    cases = (1, 1000, 1000000)

    def measure(subject, many):
        query, commit = queries[subject]
        tps, _ = pgbench(query, seconds=2 * SECONDS, options=('-D', f'many={many}'),
                         env={**os.environ, 'PGOPTIONS': f'-c synchronous_commit={commit}'})
        return {'a second': tps}

    take_turns('sources', queries, cases, measure)
    for many in cases:
        record('sources', 'backend', many, 'kB', backend_memory(many))
    table('sources', queries, cases, 'a second', of='select_1')
    table('sources', ['backend'], cases, 'kB')
    table('sources', ['create'], [1000000], 's')


def backend_memory(many):
    """private memory of a backend that has booked so many sources, above one that has not"""
    session = Session('SET synchronous_commit = off;')
    try:
        pid = session_pid(session)
        before = private_kb(pid)
        session.psql.stdin.write(f"SELECT count(pacer.nextslot('s' || n)) FROM generate_series(1, {many}) n;\n\\echo done\n")
        session.psql.stdin.flush()
        while session.psql.stdout.readline().strip() != 'done':
            pass
        return private_kb(pid) - before
    finally:
        session.close()


def session_pid(session):
    session.psql.stdin.write('SELECT pg_backend_pid();\n')
    session.psql.stdin.flush()
    return int(session.psql.stdout.readline())


def private_kb(pid):
    with open(f'/proc/{pid}/status') as f:
        return int(re.search(r'^RssAnon:\s+(\d+)', f.read(), re.M).group(1))


def age():
    sql("INSERT INTO pacer.source (name, start_interval, max_waiting) VALUES ('young', '1 us', NULL), ('old', '1 us', NULL)")
    size = number("SELECT pg_relation_size('pacer.slot')")
    wal = number("SELECT pg_current_wal_insert_lsn() - '0/0'")
    sql("SELECT count(pacer.nextslot('old')) FROM generate_series(1, 10000000)")
    record('age', 'wal', '10^7', 'bytes a booking', (number("SELECT pg_current_wal_insert_lsn() - '0/0'") - wal) / 1e7)
    record('age', 'table', '10^7', 'bytes grown', number("SELECT pg_relation_size('pacer.slot')") - size)

    def measure(subject, _):
        return {'a second': pgbench(f"SELECT pacer.nextslot('{subject}')")[0]}

    take_turns('age', ('young', 'old'), [''], measure)
    table('age', ('young', 'old'), [''], 'a second', of='young')
    table('age', ['wal'], ['10^7'], 'bytes a booking')
    table('age', ['table'], ['10^7'], 'bytes grown')


HELD = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1; UPDATE pacer.source SET max_wait = '1 h' WHERE name = 'held';"


def held():
    """bookings over time; from a third on somebody holds a snapshot (and, for ours, an uncommitted update)"""
    seconds = 10 * SECONDS
    subjects = {
        'nextslot': ("SELECT pacer.nextslot('held')", HELD),
        'update': (BY_HAND['update'].replace("'hot'", "'held'"), 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM peer.source;'),
    }
    for subject, (query, by_others) in subjects.items():
        progress = subprocess.Popen(['pgbench', '-n', '-M', 'prepared', '-c', '32', '-j', '2', '-P', '1', '-T', str(3 * seconds),
                                     '-f', script('query', query)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        session = None
        for line in progress.stderr:
            second = re.match(r'progress: ([\d.]+) s, ([\d.]+) tps', line)
            if not second:
                continue
            at = round(float(second.group(1)))
            record('held', subject, at, 'over time', float(second.group(2)))
            if at >= seconds and session is None:
                session = Session(by_others)
        progress.wait()
        session.close()

    queries = {'nextslot': BY_HAND['nextslot'], 'nextslot_held': "SELECT pacer.nextslot('held')", 'repeatable_read': BY_HAND['nextslot'],
               'serializable': BY_HAND['nextslot']}
    session = Session(HELD)

    def measure(subject, _):
        level = subject.replace('_', '\\ ') if subject in ('repeatable_read', 'serializable') else 'read\\ committed'
        return {'a second': pgbench(queries[subject], env={**os.environ, 'PGOPTIONS': f'-c default_transaction_isolation={level}'})[0]}

    take_turns('held', queries, [''], measure)
    session.close()
    table('held', queries, [''], 'a second', of='nextslot')
    for subject in subjects:
        before, after = ([r[5] for r in results if r[:2] == ('held', subject) and r[3] == 'over time' and test(int(r[2]))]
                         for test in (lambda t: t <= seconds, lambda t: t > 2 * seconds))
        record('held', subject, 'last third', 'of the first', statistics.mean(after) / statistics.mean(before))
    table('held', subjects, ['last third'], 'of the first')


def reserve():
    intervals = ('1 us', '1 ms', '10 ms', '10 s')
    aheads = (0, 10, 100, 1000)
    for interval in intervals:
        sql(f"INSERT INTO pacer.source (name, start_interval, max_waiting) VALUES ('every {interval}', '{interval}', NULL)")
    for ahead in aheads:
        sql(f"LOAD 'pg_pacer'; ALTER SYSTEM SET pg_pacer.reserve_ahead = {ahead}")
        sql('SELECT pg_reload_conf()')
        time.sleep(0.2)

        def measure(interval, _):
            sql('SELECT pg_stat_reset_shared($$wal$$)')
            tps, _ = pgbench(f"SELECT pacer.nextslot('every {interval}')", clients=8)
            time.sleep(0.3)             # sessions report when they end
            syncs, bookings = number('SELECT wal_sync FROM pg_stat_wal'), tps * SECONDS
            return {'a second': tps, 'flushes per 1000 bookings': 1000 * syncs / bookings}

        take_turns('reserve', intervals, [ahead], measure, rounds=3)
    sql("LOAD 'pg_pacer'; ALTER SYSTEM RESET pg_pacer.reserve_ahead")
    sql('SELECT pg_reload_conf()')
    table('reserve', intervals, aheads, 'a second')
    table('reserve', intervals, aheads, 'flushes per 1000 bookings')


@contextlib.contextmanager
def pgbouncer():
    folder = f'{BENCH}/bouncer'
    os.makedirs(folder)
    with open(f'{folder}/ini', 'w') as f:
        f.write(f"""[databases]
* = host={os.environ['PGHOST']} port={os.environ['PGPORT']} user=postgres
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
listen_port = 6432
auth_type = any
auth_file = {folder}/users
logfile = {folder}/log
pool_mode = transaction
default_pool_size = 20
max_client_conn = 500
""")
    with open(f'{folder}/users', 'w') as f:
        f.write('"postgres" ""\n')
    server = subprocess.Popen(['pgbouncer', '-q', f'{folder}/ini'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    env = {**os.environ, 'PGHOST': folder, 'PGPORT': '6432'}
    try:
        wait_for(server, ['psql', '-c', 'SELECT 1'], env=env)
        yield env
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()


def pooler():
    """PgBouncer costs what it costs: what counts is how bookings fare beside SELECT 1"""
    queries = ('select_1', 'nextslot', 'book')
    with pgbouncer() as bounced:
        def measure(subject, case):
            mode = ('-M', 'extended')       # older PgBouncer knows no prepared statements
            return {'a second': pgbench(BY_HAND[subject], options=mode, env=bounced if case == 'pooled' else None)[0]}

        take_turns('pooler', queries, ('direct', 'pooled'), measure)
    table('pooler', queries, ('direct', 'pooled'), 'a second', of='select_1')


def managed():
    """the edition in plain SQL, in a database of its own, beside the UPDATE by hand; a session compiles its functions once"""
    sql('CREATE DATABASE managed')
    env = {**os.environ, 'PGDATABASE': 'managed'}
    subprocess.run(['psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-f', f'{HERE}/../sql/pacer-managed.sql'], check=True, env=env)
    sql('''CREATE SCHEMA peer;
        CREATE TABLE peer.source (name text PRIMARY KEY, next_at timestamptz NOT NULL, start_interval interval NOT NULL)
            WITH (fillfactor = 25, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
        INSERT INTO peer.source VALUES ('hot', now(), '1 us');
        INSERT INTO pacer.source (name, start_interval, max_waiting) VALUES ('hot', '1 us', NULL)''', env=env)
    subjects, cases = ('update', 'nextslot', 'book'), (1, 8, 32)
    take_turns('managed', subjects, cases, lambda subject, clients: {'a second': pgbench(BY_HAND[subject], clients, seconds=3 * SECONDS, env=env)[0]})
    table('managed', subjects, cases, 'a second', of='update')


def starts():
    cases = (1, 1000), (10, 200), (100, 15)
    for interval_ms, each in cases:
        name = f'each {interval_ms} ms'
        sql(f"INSERT INTO pacer.source (name, start_interval, max_waiting) VALUES ('{name}', '{interval_ms} ms', NULL)")
        out = subprocess.run([f'{BENCH}/starts', name, '8', str(each)], text=True, stdout=subprocess.PIPE, check=True).stdout
        rows = [tuple(map(int, line.split())) for line in out.splitlines()]
        at = sorted(r[0] for r in rows)
        late = sorted(r[1] for r in rows)
        gaps = sorted(b - a for a, b in zip(at, at[1:]))
        for subject, value in (('late p50', share(late, 0.5) / 1000), ('late p99', share(late, 0.99) / 1000), ('late max', late[-1] / 1000),
                               ('earliest', late[0] / 1000), ('smallest gap', gaps[0] / 1000), ('p1 of the gaps', share(gaps, 0.01) / 1000)):
            record('starts', subject, f'{interval_ms} ms', 'ms', value)
    table('starts', ('late p50', 'late p99', 'late max', 'earliest', 'smallest gap', 'p1 of the gaps'), [f'{i} ms' for i, _ in cases], 'ms')


def rest():
    sql("INSERT INTO pacer.source (name, start_interval, max_waiting) VALUES ('full', '1 h', 0), ('later', '1 us', NULL);"
        " SELECT pacer.book('full'); SELECT pacer.advance('later', now() + interval '10 years')")
    queries = {
        'select_1': 'SELECT 1',
        'book': BY_HAND['book'],
        'refused': "SELECT * FROM pacer.try_book('full')",
        'peek': "SELECT * FROM pacer.peek('hot')",
        'release_unknown': "SELECT pacer.release('hot', 4711)",
        'book_release': "SELECT pacer.release(b) FROM pacer.book('later') b",
        'confirm_unknown': "SELECT pacer.confirm('hot', 4711, now())",
        'source_status': "SELECT * FROM pacer.source_status('hot')",
    }
    take_turns('rest', queries, [''], lambda subject, _: {'a second': pgbench(queries[subject])[0]})
    table('rest', queries, [''], 'a second', of='select_1')
    sql("INSERT INTO pacer.source (name, start_interval) SELECT 'many' || n, '1 s' FROM generate_series(1, 10000) n")
    for nth in range(ROUNDS):
        start = time.time()
        sql('SELECT count(*), sum(waiting) FROM pacer.status')
        record('rest', 'status_10000', '', 'ms', 1000 * (time.time() - start), nth + 1)
    table('rest', ['status_10000'], [''], 'ms')


def client():
    sql("INSERT INTO pacer.source (name, start_interval, max_waiting) VALUES ('command', '1 us', NULL)")
    commands = {'psql -c': ['psql', '-XAtq', '-c', 'SELECT 1'], 'pgpacer run': ['pgpacer', 'run', 'command', '--', 'true'],
                'pgpacer book': ['pgpacer', 'book', 'command']}

    def measure(subject, _):
        start = time.time()
        for _ in range(20):
            subprocess.run(commands[subject], check=True, stdout=subprocess.DEVNULL)
        return {'ms': 1000 * (time.time() - start) / 20}

    take_turns('client', commands, [''], measure)
    table('client', commands, [''], 'ms', of='psql -c')
    if os.path.exists(f'{BENCH}/waiters'):
        print('\n' + subprocess.run([f'{BENCH}/waiters'], text=True, stdout=subprocess.PIPE).stdout)


# ---- pictures -------------------------------------------------------------------------

def gnuplot(name, text):
    if not shutil.which('gnuplot'):
        print('no pictures: install gnuplot-nox')
        return
    head = f"set terminal svg size 800,400 noenhanced font 'sans-serif,13' background 'white'\nset output '{BENCH}/images/{name}.svg'\n" \
           "set border 3\nset tics nomirror\nset grid ytics lt 0 lc '#dddddd'\nset format y '%.0f'\n"
    subprocess.run(['gnuplot'], input=head + text, text=True, check=True)


def data(rows):
    return '$data << EOD\n' + '\n'.join(' '.join(str(x) for x in row) for row in rows) + '\nEOD\n'


def picture_hot():
    subjects = [s for s in (*BY_HAND, 'redis_everysec', 'redis_always', 'rate_limiter_js') if median('hot', s, 32, 'a second')]
    rows = sorted(((median('hot', s, 32, 'a second'), s) for s in subjects), reverse=True)
    gnuplot('hot', data((i, f'"{s}"', v) for i, (v, s) in enumerate(rows)) +
            "set title 'one hot source, 32 clients: calls a second (logarithmic)'\nset logscale y\nset yrange [100:*]\nset boxwidth 0.7\n"
            "set style fill solid\nunset key\nset xtics rotate by -35 noenhanced\nset rmargin 8\n"
            "plot $data using 1:3:(stringcolumn(2) eq 'nextslot' || stringcolumn(2)[1:4] eq 'book' ? 0x2266aa : 0xbbbbbb):xtic(2) with boxes lc rgb variable\n")


def picture_held():
    series = {s: [(int(r[2]), r[5]) for r in results if r[:2] == ('held', s) and r[3] == 'over time'] for s in ('nextslot', 'update')}
    rows = [(t, v, dict(series['update']).get(t, 'NaN')) for t, v in series['nextslot']]
    gnuplot('held', data(rows) + "set title 'while somebody holds a snapshot (from the line on): calls a second (logarithmic)'\n"
            f"set logscale y\nset yrange [10:*]\nset xlabel 'seconds'\nset arrow from {10 * SECONDS}, graph 0 to {10 * SECONDS}, graph 1 nohead dt 2\n"
            "plot $data using 1:2 with lines lw 2 lc '#2266aa' title 'nextslot', '' using 1:3 with lines lw 2 lc '#aa4422' title 'hand-written UPDATE'\n")


def picture_reserve():
    aheads = (0, 10, 100, 1000)
    rows = [(i, f'"{a} ms"', *(median('reserve', s, a, 'a second') for s in ('1 us', '1 ms', '10 ms', '10 s'))) for i, a in enumerate(aheads)]
    gnuplot('reserve', data(rows) + "set title 'bookings a second by reserve_ahead (logarithmic)'\nset logscale y\nset yrange [1000:*]\nset key right bottom\n"
            "set xlabel 'pg_pacer.reserve_ahead'\nplot " + ', '.join(
                f"$data using 1:{k + 3}:xtic(2) with linespoints lw 2 pt 7 title 'interval {s}'" for k, s in enumerate(('1 us', '1 ms', '10 ms', '10 s'))) + '\n')


PICTURES = {'hot': picture_hot, 'held': picture_held, 'reserve': picture_reserve}
QUESTIONS = {f.__name__: f for f in (hot, age, held, reserve, pooler, managed, starts, rest, client, sources)}


def main():
    asked = sys.argv[1:] or list(QUESTIONS)
    unknown = [q for q in asked if q not in QUESTIONS]
    if unknown:
        sys.exit(f"no such question: {' '.join(unknown)}; there are: {' '.join(QUESTIONS)}")
    with open(f'{HERE}/peers.sql') as f:
        sql(f.read())
    for question in asked:
        start = time.time()
        QUESTIONS[question]()
        save(question)
        if question in PICTURES:
            PICTURES[question]()
        print(f'({question}: {time.time() - start:.0f} s)')


main()
