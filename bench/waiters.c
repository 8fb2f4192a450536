/*
 * waiters.c [PROCESSES [CALLERS]] - what callers cost while they wait: 8 x 125
 *
 * Each process books a slot for each of its callers, all of them some seconds ahead, and
 * waits for them in one poll().  Printed are, for the time in which all wait: server
 * sessions, processor time, wake-ups; and wake-ups per wait over all.
 */
#include <libpq-fe.h>
#include <pgpacer.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define AT_ONCE	4				/* bookings under way, for each of which there is a connection */

typedef struct Figures
{
	double		waiting_cpu_ms;
	long		waiting_wakeups;
	long		wakeups;
	long		kb;
} Figures;

static double
cpu_ms(const struct rusage *u)
{
	return 1e3 * (double) (u->ru_utime.tv_sec + u->ru_stime.tv_sec) + 1e-3 * (double) (u->ru_utime.tv_usec + u->ru_stime.tv_usec);
}

static bool
waits(const pgpacer_step *s)
{
	return pgpacer_step_booking(s)->state == PGPACER_STATE_HELD && pgpacer_step_timeout_us(s) != PGPACER_NO_LIMIT;
}

/* One turn of an event loop over the first n steps; how many are done. */
static int
turn(pgpacer_step **step, int n, struct pollfd *fds, int64_t most_us)
{
	int			done = 0;

	for (int i = 0; i < n; i++)
	{
		int			rc = pgpacer_step_on(step[i]);
		int64_t		us = pgpacer_step_timeout_us(step[i]);

		if (rc == PGPACER_OK)
			done++;
		else if (rc != PGPACER_WAIT)
			exit(1);
		else if (us < most_us)
			most_us = us;
		fds[i] = (struct pollfd) {.fd = pgpacer_step_fd(step[i]),.events = pgpacer_step_events(step[i])};
	}
	if (done < n)
		poll(fds, (nfds_t) n, (int) ((most_us + 999) / 1000));
	return done;
}

static void
run(int callers, int out, int go)
{
	pgpacer_options o = PGPACER_OPTIONS_INIT;
	pgpacer_book_options bo = PGPACER_BOOK_OPTIONS_INIT;
	pgpacer   **h = calloc((size_t) callers, sizeof *h);
	pgpacer_step **step = calloc((size_t) callers, sizeof *step);
	struct pollfd *fds = calloc((size_t) callers, sizeof *fds);
	struct rusage before;
	struct rusage after;
	Figures		f;
	char		byte;

	o.keep_connection_us = 0;
	bo.confirm = -1;
	for (int begun = 0, waiting = 0; waiting < callers;)
	{
		for (; begun < callers && begun < waiting + AT_ONCE; begun++)
			if (pgpacer_open(&h[begun], "", &o) != PGPACER_OK || pgpacer_begin(&step[begun], h[begun], "waiters", &bo) != PGPACER_OK)
				exit(1);
		turn(step, begun, fds, 10000);
		for (waiting = 0; waiting < begun && waits(step[waiting]);)
			waiting++;
	}
	if (write(out, "", 1) != 1 || read(go, &byte, 1) != 1)	/* all of us wait */
		exit(1);
	getrusage(RUSAGE_SELF, &before);
	turn(step, callers, fds, 2000000);
	getrusage(RUSAGE_SELF, &after);
	f.waiting_cpu_ms = cpu_ms(&after) - cpu_ms(&before);
	f.waiting_wakeups = after.ru_nvcsw - before.ru_nvcsw;
	while (turn(step, callers, fds, INT64_C(60000000)) < callers)
		;
	getrusage(RUSAGE_SELF, &after);
	f.wakeups = after.ru_nvcsw - before.ru_nvcsw;
	f.kb = after.ru_maxrss;
	if (write(out, &f, sizeof f) != sizeof f)
		exit(1);
	exit(0);
}

static char *
ask(PGconn *conn, const char *sql)
{
	PGresult   *res = PQexec(conn, sql);
	char	   *value;

	if (PQntuples(res) != 1)
	{
		fprintf(stderr, "%s", PQerrorMessage(conn));
		exit(1);
	}
	value = strdup(PQgetvalue(res, 0, 0));
	PQclear(res);
	return value;
}

int
main(int argc, char **argv)
{
	int			processes = argc > 1 ? atoi(argv[1]) : 8;
	int			callers = argc > 2 ? atoi(argv[2]) : 125;
	int			fds[64][2];
	int			go[2];
	int			status;
	Figures		sum = {0};
	PGconn	   *conn = PQconnectdb("");
	char		sql[256];
	char		byte;

	snprintf(sql, sizeof sql, "SELECT pacer.create_source('waiters', '2 ms', max_waiting => NULL)");
	ask(conn, sql);
	snprintf(sql, sizeof sql, "SELECT pacer.advance('waiters', clock_timestamp() + interval '15 s')");
	ask(conn, sql);
	if (processes > 64 || pipe(go) != 0)
		return 1;
	for (int i = 0; i < processes; i++)
	{
		if (pipe(fds[i]) != 0)
			return 1;
		if (fork() == 0)
			run(callers, fds[i][1], go[0]);
		close(fds[i][1]);
	}
	for (int i = 0; i < processes; i++)
		if (read(fds[i][0], &byte, 1) != 1)
			return 1;
	printf("%d callers wait in %d processes: %s server sessions beside ours", processes * callers, processes,
		   ask(conn, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"));
	for (int i = 0; i < processes; i++)
		if (write(go[1], "", 1) != 1)
			return 1;
	for (int i = 0; i < processes; i++)
	{
		Figures		f;

		if (read(fds[i][0], &f, sizeof f) != sizeof f)
			return 1;
		sum.waiting_cpu_ms += f.waiting_cpu_ms;
		sum.waiting_wakeups += f.waiting_wakeups;
		sum.wakeups += f.wakeups;
		sum.kb += f.kb;
	}
	printf(", in 2 s %.1f ms of processor time and %ld wake-ups in all processes together\n", sum.waiting_cpu_ms, sum.waiting_wakeups);
	printf("%.2f wake-ups per start, %ld kB per process (the program included)\n",
		   (double) sum.wakeups / (processes * callers), sum.kb / processes);
	while (wait(&status) > 0)
		;
	PQfinish(conn);
	return 0;
}
