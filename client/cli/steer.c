/*
 * steer.c - pause, resume, alter, drop: what changes a source
 */
#define _GNU_SOURCE

#include <endian.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define PG_EPOCH_UNIX_US	INT64_C(946684800000000)

/*
 * Pauses a source; PGPACER_NO_LIMIT: until it is resumed.  *until_us, which may be
 * NULL, is when the pause ends, by the server's clock: it may be later than asked for,
 * since a pause never shortens another.
 */
int
pause_source(const Options *o, const char *source, int64_t duration_us, int64_t *until_us)
{
	PGconn	   *conn = connect_database(o);
	Parameters	p = {0};
	PGresult   *res;
	uint64_t	be = 0;
	int			status = EXIT_FAILED;

	if (!conn)
		return EXIT_FAILED;
	bind_text(&p, source);
	if (duration_us == PGPACER_NO_LIMIT)
		bind_text(&p, "infinity");
	else
		bind_interval(&p, duration_us);
	res = run_statement(conn, "SELECT pacer.pause($1, $2)", &p, true);
	if (result_ok(o, conn, res))
	{
		status = 0;
		if (PQntuples(res) == 1 && PQgetlength(res, 0, 0) == sizeof be)
			memcpy(&be, PQgetvalue(res, 0, 0), sizeof be);
		if (until_us && __builtin_add_overflow((int64_t) be64toh(be), PG_EPOCH_UNIX_US, until_us))
			*until_us = PGPACER_NO_LIMIT;
	}
	PQclear(res);
	PQfinish(conn);
	return status;
}

/* Takes what a Retry-After header holds, which may also be no time at all: then nothing is done. */
int
verb_pause(const Options *o)
{
	int64_t		duration_us;
	int64_t		until_us;
	int			status;

	need_args(o, 2, 2, "SOURCE TIME");
	if (!parse_pause(o->args[1], &duration_us))
		usage_error("invalid time \"%s\"; write 30s, 5min, a date as in HTTP, or infinity", o->args[1]);
	if (duration_us <= 0)
		return 0;
	status = pause_source(o, o->args[0], duration_us, &until_us);
	if (status != 0)
		return status;
	print_time(until_us);
	fputc('\n', stdout);
	return flush_output(o);
}

/* One statement that has nothing to answer. */
static int
steer(const Options *o, const char *sql, const Parameters *p)
{
	PGconn	   *conn = connect_database(o);
	PGresult   *res;
	const char *sqlstate;
	bool		gone;
	int			status = 0;

	if (!conn)
		return EXIT_FAILED;
	res = run_statement(conn, sql, p, false);
	sqlstate = PQresultErrorField(res, PG_DIAG_SQLSTATE);
	gone = sqlstate && strcmp(sqlstate, "42704") == 0;
	if (!(gone && o->if_exists) && !result_ok(o, conn, res))
		status = EXIT_FAILED;
	else if (strcmp(PQcmdTuples(res), "0") == 0)	/* an UPDATE that found nothing */
	{
		complain(o, "source \"%s\" does not exist", o->args[0]);
		status = EXIT_FAILED;
	}
	PQclear(res);
	PQfinish(conn);
	return status;
}

int
verb_resume(const Options *o)
{
	Parameters	p = {0};

	need_args(o, 1, 1, "SOURCE");
	bind_text(&p, o->args[0]);
	return steer(o, "SELECT pacer.resume($1)", &p);
}

int
verb_drop(const Options *o)
{
	Parameters	p = {0};

	need_args(o, 1, 1, "SOURCE");
	bind_text(&p, o->args[0]);
	return steer(o, "SELECT pacer.drop_source($1)", &p);
}

/* Begins the assignment of the next parameter. */
static void
assign(FILE *sql, const char *column, const Parameters *p)
{
	fprintf(sql, "%s %s = $%d", p->n == 1 ? "UPDATE pacer.source SET" : ",", column, p->n + 1);
}

static void
assign_int(FILE *sql, const char *column, Parameters *p, int value, bool none)
{
	assign(sql, column, p);
	if (none)
		fputs("::int4", sql);
	if (none)
		bind_text(p, NULL);
	else
		bind_int(p, value);
}

static void
assign_interval(FILE *sql, const char *column, Parameters *p, int64_t us, bool none)
{
	assign(sql, column, p);
	if (none)
		fputs("::interval", sql);
	if (none)
		bind_text(p, NULL);
	else
		bind_interval(p, us);
}

static void
assign_given(FILE *sql, const Options *o, Parameters *p)
{
	const pgpacer_source_options *s = &o->source;

	if (o->given & GIVEN_INTERVAL)
		assign_interval(sql, "start_interval", p, s->interval_us, false);
	if (o->given & GIVEN_BURST)
		assign_int(sql, "burst", p, s->burst, false);
	if (o->given & GIVEN_MAX_WAITING)
		assign_int(sql, "max_waiting", p, s->max_waiting, s->max_waiting < 0);
	if (o->given & GIVEN_MAX_WAIT)
		assign_interval(sql, "max_wait", p, o->max_wait_us, o->max_wait_us == PGPACER_NO_LIMIT);
	if (o->given & GIVEN_QUOTA)
	{
		assign_int(sql, "quota", p, s->quota, s->quota == 0);
		assign_interval(sql, "quota_window", p, s->quota_window_us, s->quota == 0);
	}
	if (o->given & GIVEN_RENAME)
	{
		assign(sql, "name", p);
		bind_text(p, o->rename);
	}
}

/* What is not given stays as it is; one UPDATE, so all of it holds or nothing does. */
int
verb_alter(const Options *o)
{
	Parameters	p = {0};
	char	   *text = NULL;
	size_t		size;
	FILE	   *sql;
	int			status;

	need_args(o, 1, 1, "SOURCE OPTION...");
	if (o->given & GIVEN_REMEMBERED)
		usage_error("what a source remembers is fixed when it is made");
	sql = open_memstream(&text, &size);
	if (!sql)
		exit(EXIT_FAILED);
	bind_text(&p, o->args[0]);
	assign_given(sql, o, &p);
	if (p.n == 1)
		usage_error("alter \"%s\" in what? give --interval, --burst, --max-waiting, --max-wait, --quota or --rename",
					o->args[0]);
	fputs(" WHERE name = $1", sql);
	if (fclose(sql) != 0)
		exit(EXIT_FAILED);
	status = steer(o, text, &p);
	free(text);
	return status;
}
