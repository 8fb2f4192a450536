/*
 * query.c - one statement and its answer, without ever blocking for good
 *
 * Guarantees: no longer than network_timeout for the answer, plus grace to get rid of
 * the statement when the token fires or the time is over.  Afterwards the connection
 * is either idle, with nothing of this statement in it or on its way to it, or closed.
 * A statement whose end was not seen is reported as PGPACER_UNKNOWN, never as failed.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "internal.h"

static const struct
{
	const char *sqlstate;		/* or the first two characters: the class */
	int			code;
}			codes[] = {
	{"PC001", PGPACER_FULL},
	{"PC002", PGPACER_TOO_LATE},
	{"PC003", PGPACER_GONE},
	{"42704", PGPACER_NO_SOURCE},
	{"42710", PGPACER_EXISTS},
	{"25006", PGPACER_READ_ONLY},
	{"42501", PGPACER_DENIED},
	{"28", PGPACER_DENIED},
	{"22", PGPACER_INVALID},
	{"23", PGPACER_INVALID},
	{"3F000", PGPACER_NOT_INSTALLED},
	{"42883", PGPACER_NOT_INSTALLED},
	{"42P01", PGPACER_NOT_INSTALLED},

	/*
	 * The statement was interrupted, and a booking is never undone: it may have been
	 * made before (57014 also stands for a statement_timeout).
	 */
	{"57", PGPACER_UNKNOWN},
	{"08", PGPACER_UNKNOWN},
};

int
code_of_sqlstate(const char *sqlstate)
{
	for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
		if (strncmp(sqlstate, codes[i].sqlstate, strlen(codes[i].sqlstate)) == 0)
			return codes[i].code;
	return PGPACER_SERVER;
}

/* The message and code of a failed statement. */
static int
result_failed(pgpacer *h, const PGresult *res)
{
	const char *sqlstate = PQresultErrorField(res, PG_DIAG_SQLSTATE);
	const char *primary = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);
	const char *detail = PQresultErrorField(res, PG_DIAG_MESSAGE_DETAIL);

	if (!sqlstate)				/* libpq's own: the connection broke */
		return handle_fail(h, PGPACER_UNKNOWN, "%s", PQresultErrorMessage(res));
	strncpy(h->sqlstate, sqlstate, sizeof h->sqlstate - 1);
	return handle_fail(h, code_of_sqlstate(sqlstate), "%s%s%s%s", primary ? primary : "", detail ? " (" : "",
					   detail ? detail : "", detail ? ")" : "");
}

/*
 * Sends what is unsent and reads until the server is ready for the next statement.
 * WOKEN_READY: it is, *res holds the answer and *arrived_us the time when it was here.
 * WOKEN_FAILED: the connection broke, or poll() failed.
 *
 * A later result replaces an earlier one: an error may follow the row it spoils.
 */
static Woken
read_answer(pgpacer *h, pgpacer_cancel *cancel, int64_t until_us, PGresult **res, int64_t *arrived_us)
{
	for (;;)
	{
		int			unsent = PQflush(h->conn);
		Woken		woken;

		if (unsent < 0)
			return WOKEN_FAILED;
		while (!PQisBusy(h->conn))
		{
			PGresult   *next = PQgetResult(h->conn);

			if (!next)
				return WOKEN_READY;
			if (!*res)
				*arrived_us = clock_us() + 1;	/* rounded up: the wait counts from here */
			PQclear(*res);
			*res = next;
		}
		woken = wait_for(PQsocket(h->conn), unsent ? POLLIN | POLLOUT : POLLIN, cancel, until_us);
		if (woken != WOKEN_READY)
			return woken;
		if (!PQconsumeInput(h->conn))
			return WOKEN_FAILED;
	}
}

/*
 * Gets rid of the running statement by until_us: cancels it on the server, and reads
 * what it says to the end.  If either cannot be done in time the connection is closed,
 * since the request or the answer could otherwise meet a later statement.  An answer
 * that is here is kept in any case: it may be a slot to be released.
 */
static void
stop_statement(pgpacer *h, int64_t until_us, PGresult **res, int64_t *arrived_us)
{
	bool		cancelled = server_cancel(h->conn, until_us);
	bool		answered = read_answer(h, NULL, cancelled ? until_us : clock_us(), res, arrived_us) == WOKEN_READY;

	if (!answered)
	{
		PQclear(*res);
		*res = NULL;
	}
	if (!cancelled || !answered)
		connection_drop(h);
}

static int
connection_broke(pgpacer *h, PGresult **res)
{
	int			rc = handle_fail(h, PGPACER_UNKNOWN, "%s", PQerrorMessage(h->conn));

	if (h->errmsg[0] == '\0')
		handle_fail(h, rc, "connection to the database lost");
	PQclear(*res);
	*res = NULL;
	connection_drop(h);
	return rc;
}

/*
 * Runs a statement, connecting first if need be.
 *
 * PGPACER_OK: *res is its one row, in binary.  PGPACER_CANCELLED, PGPACER_DEADLINE: *res
 * is NULL, or that row if the statement had finished all the same.  Otherwise *res is
 * NULL.  The caller clears *res.
 */
static int
query_once(pgpacer *h, const Statement *s, Bounds *bounds, PGresult **res, int64_t *arrived_us)
{
	int			rc = connection_open(h, bounds);
	int			stopped = PGPACER_OK;
	int64_t		until;

	*res = NULL;
	if (rc != PGPACER_OK)
		return rc;
	h->sqlstate[0] = '\0';
	if (!PQsendQueryParams(h->conn, s->sql, s->nparams, s->types, s->values, s->lengths, s->formats, 1))
		return connection_broke(h, res);

	until = sooner_us(bounds->end_us, later_us(clock_us(), h->opt.network_timeout_us));
	switch (read_answer(h, bounds->cancel, until, res, arrived_us))
	{
		case WOKEN_READY:
			break;
		case WOKEN_FAILED:
			return connection_broke(h, res);
		case WOKEN_CANCELLED:
			stopped = handle_cancelled(h, bounds->cancel);
			stop_statement(h, handle_grace_end(h), res, arrived_us);
			break;
		case WOKEN_TIMEOUT:
			stopped = handle_fail(h, PGPACER_UNKNOWN, "no answer from the database in time");
			stop_statement(h, sooner_us(bounds->end_us, later_us(clock_us(), h->opt.grace_us)), res, arrived_us);
			break;
	}
	if (h->conn && (PQstatus(h->conn) != CONNECTION_OK || PQtransactionStatus(h->conn) != PQTRANS_IDLE))
		connection_drop(h);

	if (PQresultStatus(*res) == PGRES_TUPLES_OK && PQntuples(*res) == 1)
		return stopped == PGPACER_UNKNOWN ? PGPACER_OK : stopped;	/* late, but here */
	if (stopped == PGPACER_OK)
		stopped = PQresultStatus(*res) == PGRES_TUPLES_OK ?
			handle_fail(h, PGPACER_NOT_INSTALLED, "the server answered %d rows instead of one", PQntuples(*res)) :
			result_failed(h, *res);
	PQclear(*res);
	*res = NULL;
	return stopped;
}

/*
 * A statement that lost a conflict with another's has changed nothing.  In the SQL-only
 * edition that happens where the role's isolation level is stricter than read
 * committed; whoever won has committed, so that one of us always gets on.
 */
static bool
lost_conflict(const pgpacer *h)
{
	return strcmp(h->sqlstate, "40001") == 0 || strcmp(h->sqlstate, "40P01") == 0;
}

/* query_once(), again after a lost conflict, for as long as an answer may take. */
int
query_run(pgpacer *h, const Statement *s, Bounds *bounds, PGresult **res, int64_t *arrived_us)
{
	int64_t		until = sooner_us(bounds->end_us, later_us(clock_us(), h->opt.network_timeout_us));
	int			rc;

	do
		rc = query_once(h, s, bounds, res, arrived_us);
	while (rc == PGPACER_SERVER && lost_conflict(h) && clock_us() < until);
	return rc;
}

/*
 * query_run() for a statement that may be run twice: if the connection broke, once
 * more on a new one.
 */
int
query_run_idempotent(pgpacer *h, const Statement *s, Bounds *bounds, PGresult **res, int64_t *arrived_us)
{
	int			rc = query_run(h, s, bounds, res, arrived_us);

	if (rc != PGPACER_UNKNOWN || clock_us() >= bounds->end_us)
		return rc;
	rc = query_run(h, s, bounds, res, arrived_us);
	return rc == PGPACER_UNREACHABLE ? PGPACER_UNKNOWN : rc;
}
