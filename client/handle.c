/*
 * handle.c - the handle: making and freeing it, who may use it, its last error
 *
 * Every public function that takes a handle begins with handle_enter() and ends with
 * handle_leave(); between the two the handle is this thread's alone.
 */
#define _GNU_SOURCE

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

#define DEFAULT_CONNECT_TIMEOUT_US	INT64_C(10000000)

/* ------------------------------------------------------------------
 * Who may use it
 * ------------------------------------------------------------------ */

/*
 * Takes the handle for one call.  On PGPACER_BUSY nothing of it may be touched, not
 * even its message: it is another thread's.  In a forked child the flag may have been
 * copied while a thread of the parent had it set, so the process is checked first.
 */
int
handle_enter(pgpacer *h)
{
	if (!h)
		return PGPACER_INVALID;
	if (h->pid != getpid())
	{
		h->sqlstate[0] = '\0';
		return handle_fail(h, PGPACER_FORKED, "the handle belongs to the process that opened it");
	}
	if (atomic_flag_test_and_set_explicit(&h->busy, memory_order_acquire))
		return PGPACER_BUSY;
	h->errmsg[0] = '\0';
	h->sqlstate[0] = '\0';
	h->grace_end_us = 0;
	return PGPACER_OK;
}

int
handle_leave(pgpacer *h, int rc)
{
	/* what an attempt that was made good for had to say is of no interest */
	if (rc == PGPACER_OK || rc == PGPACER_WAIT)
	{
		h->errmsg[0] = '\0';
		h->sqlstate[0] = '\0';
	}
	atomic_flag_clear_explicit(&h->busy, memory_order_release);
	return rc;
}

/* Sets the message and returns rc, so that callers can "return handle_fail(...)". */
int
handle_fail(pgpacer *h, int rc, const char *fmt,...)
{
	va_list		args;
	size_t		len;

	va_start(args, fmt);
	vsnprintf(h->errmsg, sizeof h->errmsg, fmt, args);
	va_end(args);
	for (len = strlen(h->errmsg); len > 0 && h->errmsg[len - 1] == '\n'; len--)
		h->errmsg[len - 1] = '\0';
	return rc;
}

/* The code and message of a call that ends because its token has fired. */
int
handle_cancelled(pgpacer *h, pgpacer_cancel *cancel)
{
	if (pgpacer_cancel_reason(cancel) == PGPACER_REASON_DEADLINE)
		return handle_fail(h, PGPACER_DEADLINE, "the deadline passed");
	return handle_fail(h, PGPACER_CANCELLED, "cancelled");
}

/*
 * When a call whose token has fired must be over.  The grace is one for the whole
 * call, however many steps (cancelling the statement, releasing) share it.
 */
int64_t
handle_grace_end(pgpacer *h)
{
	if (h->grace_end_us == 0)
		h->grace_end_us = later_us(clock_us(), h->opt.grace_us);
	return h->grace_end_us;
}

/* The bounds of a call that begins now. */
Bounds
handle_bounds(const pgpacer *h, pgpacer_cancel *cancel)
{
	int64_t		now = clock_us();

	return (Bounds) {
		.cancel = cancel,
		.end_us = PGPACER_NO_LIMIT,
		.unreachable_us = later_us(now, h->opt.database_wait_us),
		.crowded_us = later_us(now, h->opt.connect_timeout_us)
	};
}

/* ------------------------------------------------------------------
 * Options
 * ------------------------------------------------------------------ */

/*
 * Lays the caller's options over our defaults, as far as both know them.  False: from
 * has no sensible size, or a newer program set a field that this library does not
 * know, which must not be ignored.
 */
bool
options_copy(void *to, size_t to_size, const void *from)
{
	size_t		size;

	if (!from)
		return true;
	memcpy(&size, from, sizeof size);
	if (size < sizeof size || size > 4096)
		return false;
	for (size_t i = to_size; i < size; i++)
		if (((const char *) from)[i] != 0)
			return false;
	memcpy(to, from, size < to_size ? size : to_size);
	return true;
}

/* connect_timeout as libpq reads it, in seconds; 0 and below mean "not set" to us. */
static int64_t
configured_connect_timeout(const pgpacer *h)
{
	const char *text = getenv("PGCONNECT_TIMEOUT");
	long		seconds;

	for (const PQconninfoOption *o = h->params; o->keyword; o++)
		if (o->val && strcmp(o->keyword, "connect_timeout") == 0)
			text = o->val;
	seconds = text ? strtol(text, NULL, 10) : 0;
	return seconds > 0 && seconds < 1000000 ? (int64_t) seconds * 1000000 : DEFAULT_CONNECT_TIMEOUT_US;
}

static int
set_options(pgpacer *h, const pgpacer_options *options)
{
	h->opt = (pgpacer_options) PGPACER_OPTIONS_INIT;
	if (!options_copy(&h->opt, sizeof h->opt, options))
		return handle_fail(h, PGPACER_INVALID, "the options have a wrong size or set a field unknown to this version");
	if (h->opt.connect_timeout_us < 0 || h->opt.network_timeout_us <= 0 || h->opt.keep_connection_us < 0 ||
		h->opt.database_wait_us < 0 || h->opt.grace_us < 0 ||
		h->opt.away_interval_us < 0)
		return handle_fail(h, PGPACER_INVALID, "a time limit of the options is negative");
	if (h->opt.connect_timeout_us == 0)
		h->opt.connect_timeout_us = configured_connect_timeout(h);
	h->application_name = strdup(h->opt.application_name ? h->opt.application_name : "pgpacer");
	if (!h->application_name)
		return handle_fail(h, PGPACER_NO_MEMORY, "out of memory");
	return PGPACER_OK;
}

/* ------------------------------------------------------------------
 * Making and freeing
 * ------------------------------------------------------------------ */

static bool
set_param(PQconninfoOption *params, const char *keyword, const char *value)
{
	for (PQconninfoOption *o = params; o->keyword; o++)
		if (strcmp(o->keyword, keyword) == 0)
			return (o->val = strdup(value)) != NULL;
	return false;
}

/* As psql -d: a connection string, a URI, or else a database's name. */
static int
parse_conninfo(pgpacer *h, const char *conninfo)
{
	char	   *why = NULL;
	bool		is_name = conninfo[0] != '\0' && !strchr(conninfo, '=') &&
		strncmp(conninfo, "postgresql://", 13) != 0 && strncmp(conninfo, "postgres://", 11) != 0;

	h->params = PQconninfoParse(is_name ? "" : conninfo, &why);
	if (!h->params)
	{
		int			rc = handle_fail(h, why ? PGPACER_INVALID : PGPACER_NO_MEMORY, "%s", why ? why : "out of memory");

		PQfreemem(why);
		return rc;
	}
	if (is_name && !set_param(h->params, "dbname", conninfo))
		return handle_fail(h, PGPACER_NO_MEMORY, "out of memory");
	return PGPACER_OK;
}

int
pgpacer_open(pgpacer **handle, const char *conninfo, const pgpacer_options *options)
{
	pgpacer    *h;
	int			rc;

	if (!handle)
		return PGPACER_INVALID;
	h = *handle = calloc(1, sizeof *h);
	if (!h)
		return PGPACER_NO_MEMORY;
	h->pid = getpid();
	atomic_flag_clear(&h->busy);

	rc = parse_conninfo(h, conninfo ? conninfo : "");
	if (rc == PGPACER_OK)
		rc = set_options(h, options);
	if (rc == PGPACER_OK)
		rc = hosts_split(h);
	return rc;
}

int
pgpacer_close(pgpacer *h)
{
	if (!h)
		return PGPACER_OK;
	if (h->pid != getpid())
		connection_abandon(h);
	else if (atomic_flag_test_and_set_explicit(&h->busy, memory_order_acquire))
		return PGPACER_BUSY;
	else
		connection_drop(h);
	hosts_free(h);
	PQconninfoFree(h->params);
	free(h->application_name);
	free(h);
	return PGPACER_OK;
}

/* ------------------------------------------------------------------
 * Errors
 * ------------------------------------------------------------------ */

const char *
pgpacer_errmsg(const pgpacer *h)
{
	return h ? h->errmsg : pgpacer_strerror(PGPACER_NO_MEMORY);
}

const char *
pgpacer_sqlstate(const pgpacer *h)
{
	return h ? h->sqlstate : "";
}

const char *
pgpacer_strerror(int code)
{
	switch ((pgpacer_code) code)
	{
		case PGPACER_OK:
			return "no error";
		case PGPACER_WAIT:
			return "not yet, wait again";
		case PGPACER_CANCELLED:
			return "cancelled";
		case PGPACER_DEADLINE:
			return "the deadline passed";
		case PGPACER_FULL:
			return "too many callers are waiting already";
		case PGPACER_TOO_LATE:
			return "no slot within the longest wait";
		case PGPACER_GONE:
			return "the booking was released";
		case PGPACER_NO_SOURCE:
			return "no such source";
		case PGPACER_EXISTS:
			return "the source exists already";
		case PGPACER_INVALID:
			return "invalid argument";
		case PGPACER_UNREACHABLE:
			return "the database cannot be reached";
		case PGPACER_UNKNOWN:
			return "no answer, the outcome is unknown";
		case PGPACER_DENIED:
			return "permission denied";
		case PGPACER_READ_ONLY:
			return "the server is read-only";
		case PGPACER_NOT_INSTALLED:
			return "pg_pacer is not installed in the database";
		case PGPACER_SERVER:
			return "the server reported an error";
		case PGPACER_BUSY:
			return "another thread is using the handle";
		case PGPACER_FORKED:
			return "the handle belongs to another process";
		case PGPACER_NO_MEMORY:
			return "out of memory";
		case PGPACER_SYSTEM:
			return "a system call failed";
	}
	return "unknown code";
}

const char *
pgpacer_version(void)
{
	return PGPACER_VERSION;
}
