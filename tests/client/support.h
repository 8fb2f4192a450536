/*
 * support.h - what the client's tests share
 *
 * They want a server with pg_pacer in the database that PGHOST, PGPORT, PGUSER and
 * PGDATABASE name, as a role that may create sources and roles.
 */
#ifndef SUPPORT_H
#define SUPPORT_H

#define _GNU_SOURCE				/* so this comes before any system header */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "pgpacer.h"

#define UNUSED __attribute__((unused))
#define SECOND INT64_C(1000000)

static PGconn *admin;			/* the tests' own session */

static UNUSED int64_t
now_us(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (int64_t) t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static UNUSED int64_t
mono_us(void)
{
	return now_us(CLOCK_MONOTONIC);
}

static UNUSED int64_t
cpu_us(void)
{
	const char *slower = getenv("PACER_SLOWER");	/* so many times, under an emulator */

	return now_us(CLOCK_PROCESS_CPUTIME_ID) / (slower ? atoi(slower) : 1);
}

/* Runs SQL in the tests' session and returns its first value (till the next call). */
static UNUSED const char *
sql(const char *fmt,...)
{
	static char value[1024];
	char		text[4096];
	va_list		args;
	PGresult   *res;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	res = PQexec(admin, text);
	if (PQresultStatus(res) != PGRES_TUPLES_OK && PQresultStatus(res) != PGRES_COMMAND_OK)
		fail_msg("%s: %s", text, PQerrorMessage(admin));
	snprintf(value, sizeof value, "%s", PQntuples(res) > 0 ? PQgetvalue(res, 0, 0) : "");
	PQclear(res);
	return value;
}

static UNUSED int64_t
sql_int(const char *query, const char *source)
{
	const char *values[] = {source};
	PGresult   *res = PQexecParams(admin, query, 1, NULL, values, NULL, NULL, 0);
	int64_t		n;

	if (PQresultStatus(res) != PGRES_TUPLES_OK)
		fail_msg("%s: %s", query, PQerrorMessage(admin));
	n = strtoll(PQgetvalue(res, 0, 0), NULL, 10);
	PQclear(res);
	return n;
}

#define EPOCH_US(column) "SELECT (extract(epoch FROM " column ") * 1000000)::int8 FROM pacer.status WHERE name = $1"

static UNUSED int64_t
head_of(const char *source)
{
	return sql_int(EPOCH_US("next_request_at"), source);
}

static UNUSED int64_t
booked_of(const char *source)
{
	return sql_int("SELECT booked FROM pacer.status WHERE name = $1", source);
}

/* Server sessions that our handles hold. */
static UNUSED int64_t
sessions(void)
{
	return sql_int("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", "pgpacer");
}

/* Polls query, which has the parameter $1, until it answers wanted; bounded. */
static UNUSED bool
becomes(const char *query, const char *parameter, int64_t wanted)
{
	for (int i = 0; i < 1000; i++)
	{
		if (sql_int(query, parameter) == wanted)
			return true;
		usleep(10000);
	}
	return false;
}

#define assert_code(h, rc, wanted) \
	do { \
		int			rc_ = (rc); \
		if (rc_ != (wanted)) \
			fail_msg("%s: %d instead of %d: %s", #rc, rc_, (int) (wanted), pgpacer_errmsg(h)); \
	} while (0)

static UNUSED pgpacer *
open_with(const char *conninfo, const pgpacer_options *options)
{
	pgpacer    *h;

	assert_code(h, pgpacer_open(&h, conninfo, options), PGPACER_OK);
	return h;
}

/* A new source of that interval; its name lasts until the next call but 7. */
static UNUSED const char *
new_source(int64_t interval_us)
{
	static char names[8][64];
	static int	n;
	char	   *name = names[n++ % 8];
	pgpacer_source_options o = PGPACER_SOURCE_OPTIONS_INIT;
	pgpacer    *h = open_with(NULL, NULL);

	snprintf(name, sizeof names[0], "client-%d-%d", (int) getpid(), n);
	o.interval_us = interval_us;
	o.max_waiting = -1;
	assert_code(h, pgpacer_create_source(h, name, &o), PGPACER_OK);
	pgpacer_close(h);
	return name;
}

static UNUSED int
connect_admin(void **state)
{
	(void) state;
	admin = PQconnectdb("application_name=tests");
	if (PQstatus(admin) != CONNECTION_OK)
	{
		fprintf(stderr, "%s", PQerrorMessage(admin));
		return -1;
	}
	PQsetnonblocking(admin, 0);
	PQclear(PQexec(admin, "SET client_min_messages = warning; CREATE EXTENSION IF NOT EXISTS pg_pacer"));
	return 0;
}

static UNUSED int
disconnect_admin(void **state)
{
	(void) state;
	PQfinish(admin);
	return 0;
}

#endif							/* SUPPORT_H */
