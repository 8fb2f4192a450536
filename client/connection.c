/*
 * connection.c - opening, losing and re-opening the handle's connection
 *
 * Guarantees: one attempt at one host lasts connect_timeout at most, the whole no
 * longer than the call's bounds, and a cancel token ends it at once.  The startup
 * packet holds what the user's connection string says and an application name, no
 * "options", so that poolers let it pass.
 * Does not guarantee: a bound for looking up a host name, which libpq does inside
 * PQconnectStart.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

/* between two tries at an unreachable database */
#define FIRST_PAUSE_US	INT64_C(20000)
#define LAST_PAUSE_US	INT64_C(1000000)

#define MAX_KEYWORDS	80

void
connection_drop(pgpacer *h)
{
	PQfinish(h->conn);
	h->conn = NULL;
}

/*
 * In a forked child: frees the copy without a word to the server.  PQfinish would say
 * goodbye on the socket that the parent goes on using (and shut its TLS session
 * down), so the child's descriptor is first pointed elsewhere.
 */
void
connection_abandon(pgpacer *h)
{
	int			fd = h->conn ? PQsocket(h->conn) : -1;

	if (fd >= 0)
	{
		int			nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

		if (nowhere < 0 || dup2(nowhere, fd) < 0)
		{
			close(fd);			/* and leave the memory: nothing may be sent */
			h->conn = NULL;
		}
		if (nowhere >= 0)
			close(nowhere);
	}
	connection_drop(h);
}

/* Takes note of warnings; PQfinish and other threads cannot interfere, it runs in our calls only. */
static void
on_notice(void *arg, const PGresult *res)
{
	pgpacer    *h = arg;
	const char *sqlstate = PQresultErrorField(res, PG_DIAG_SQLSTATE);

	if (sqlstate && strcmp(sqlstate, "01000") == 0)
		h->warned = true;
}

/*
 * libpq has no SQLSTATE for a failed connection, but in its verbose format the server's
 * error reads "severity:  SQLSTATE: text" with "LOCATION: function, file.c:line" as the
 * last line, whatever the language.  Takes the state out of message into state
 * (which stays "" if the failure is not the server's), and drops that line.
 */
static void
split_connect_error(char *message, char state[6])
{
	char	   *end = message + strlen(message);
	char	   *line;

	for (char *p = strstr(message, ":  "); p; p = strstr(p + 1, ":  "))
	{
		if (strspn(p + 3, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5 && strncmp(p + 8, ": ", 2) == 0)
		{
			memcpy(state, p + 3, 5);
			state[5] = '\0';
			memmove(p + 3, p + 10, strlen(p + 10) + 1);
			end = message + strlen(message);
			break;
		}
	}
	while (end > message && end[-1] == '\n')
		*--end = '\0';
	line = strrchr(message, '\n');
	if (state[0] != '\0' && line)
	{
		char	   *number = strstr(line, ".c:");

		if (number && number[3] != '\0' && strspn(number + 3, "0123456789") == strlen(number + 3))
			*line = '\0';
	}
}

/* Can trying again, or trying another host, help? */
static bool
may_come_back(const char *sqlstate)
{
	return sqlstate[0] == '\0' || strncmp(sqlstate, "57P", 3) == 0 || strncmp(sqlstate, "53", 2) == 0 ||
		(strncmp(sqlstate, "08", 2) == 0 && strcmp(sqlstate, "08P01") != 0);
}

/* Judges and frees a connection that did not come up. */
static int
connect_failed(pgpacer *h, PGconn *conn)
{
	int			rc = PGPACER_UNREACHABLE;

	handle_fail(h, rc, "%s", PQerrorMessage(conn));
	h->sqlstate[0] = '\0';
	split_connect_error(h->errmsg, h->sqlstate);
	if (PQconnectionNeedsPassword(conn) || !may_come_back(h->sqlstate))
		rc = code_of_sqlstate(h->sqlstate[0] != '\0' ? h->sqlstate : "28000");
	PQfinish(conn);
	return rc;
}

static PGconn *
start_connection(pgpacer *h, const Target *t)
{
	const char *keywords[MAX_KEYWORDS + 2];
	const char *values[MAX_KEYWORDS + 2];
	int			n = 0;

	/* first, so that the user's own comes after it and wins */
	keywords[n] = "fallback_application_name";
	values[n++] = h->application_name;
	for (const PQconninfoOption *o = h->params; o->keyword && n < MAX_KEYWORDS; o++)
	{
		const char *value = o->val;

		if (t && strcmp(o->keyword, "host") == 0)
			value = t->host;
		else if (t && strcmp(o->keyword, "hostaddr") == 0)
			value = t->hostaddr;
		else if (t && strcmp(o->keyword, "port") == 0)
			value = t->port;
		if (!value)
			continue;
		keywords[n] = o->keyword;
		values[n++] = value;
	}
	keywords[n] = values[n] = NULL;
	return PQconnectStartParams(keywords, values, 0);
}

/* One attempt; t is NULL if there is no list of hosts. */
static int
connect_once(pgpacer *h, const Target *t, const Bounds *bounds)
{
	int64_t		until = sooner_us(bounds->end_us, later_us(clock_us(), h->opt.connect_timeout_us));
	PostgresPollingStatusType next = PGRES_POLLING_WRITING;
	PGconn	   *conn = start_connection(h, t);

	if (!conn)
		return handle_fail(h, PGPACER_NO_MEMORY, "out of memory");
	PQsetErrorVerbosity(conn, PQERRORS_VERBOSE);
	PQsetNoticeReceiver(conn, on_notice, h);

	while (PQstatus(conn) != CONNECTION_BAD && next != PGRES_POLLING_OK && next != PGRES_POLLING_FAILED)
	{
		short		events = next == PGRES_POLLING_READING ? POLLIN : POLLOUT;
		Woken		woken = wait_for(PQsocket(conn), events, bounds->cancel, until);
		int			saved_errno = errno;

		if (woken == WOKEN_READY)
		{
			next = PQconnectPoll(conn);
			continue;
		}
		PQfinish(conn);
		h->sqlstate[0] = '\0';
		if (woken == WOKEN_CANCELLED)
			return handle_cancelled(h, bounds->cancel);
		if (woken == WOKEN_FAILED)
			return handle_fail(h, PGPACER_SYSTEM, "could not poll: %s", strerror(saved_errno));
		return handle_fail(h, PGPACER_UNREACHABLE, "could not connect to the database%s%s%s: timeout expired",
						   t ? " on \"" : "", t ? (t->host ? t->host : t->hostaddr) : "", t ? "\"" : "");
	}
	if (PQstatus(conn) != CONNECTION_OK)
		return connect_failed(h, conn);

	PQsetErrorVerbosity(conn, PQERRORS_DEFAULT);
	if (PQsetnonblocking(conn, 1) != 0)
		return connect_failed(h, conn);
	h->conn = conn;
	h->sqlstate[0] = '\0';
	return PGPACER_OK;
}

/* Every host in turn, as libpq: on to the next unless a server answered "not you". */
static int
connect_hosts(pgpacer *h, const Bounds *bounds)
{
	int			rc = PGPACER_UNREACHABLE;

	if (h->ntargets == 0)
		return connect_once(h, NULL, bounds);
	for (int i = 0; i < h->ntargets; i++)
	{
		rc = connect_once(h, &h->targets[i], bounds);
		if (rc != PGPACER_UNREACHABLE)
			break;
	}
	return rc;
}

/*
 * A connection kept from an earlier call may have died since, for instance with its
 * server.  Its end, or the server's last words, are then waiting on the socket; find
 * out now, since a failure after sending would leave the outcome unknown.
 */
static bool
still_alive(PGconn *conn)
{
	struct pollfd fd = {.fd = PQsocket(conn),.events = POLLIN};

	if (PQstatus(conn) != CONNECTION_OK || PQtransactionStatus(conn) != PQTRANS_IDLE)
		return false;
	if (poll(&fd, 1, 0) == 0)
		return true;
	return PQconsumeInput(conn) && !PQisBusy(conn) && poll(&fd, 1, 0) == 0 && PQstatus(conn) == CONNECTION_OK;
}

/*
 * Makes sure that h->conn is a live, idle connection.  Tries again, with growing
 * pauses, while the bounds say so; a pause ends early when the token fires.
 */
int
connection_open(pgpacer *h, Bounds *bounds)
{
	int64_t		pause = FIRST_PAUSE_US;

	if (bounds->cancel && pgpacer_cancel_reason(bounds->cancel) != 0)
		return handle_cancelled(h, bounds->cancel);
	if (h->conn && still_alive(h->conn))
		return PGPACER_OK;
	connection_drop(h);

	for (;;)
	{
		int			rc = connect_hosts(h, bounds);
		bool		crowded = strcmp(h->sqlstate, "53300") == 0;
		int64_t		until = crowded && bounds->crowded_us > bounds->unreachable_us ?
			bounds->crowded_us : bounds->unreachable_us;
		int64_t		now = clock_us();

		if (rc != PGPACER_UNREACHABLE || now >= sooner_us(until, bounds->end_us))
			return rc;
		bounds->retried = true;
		if (wait_for(-1, 0, bounds->cancel, sooner_us(later_us(now, pause), until)) == WOKEN_CANCELLED)
			return handle_cancelled(h, bounds->cancel);
		pause = sooner_us(2 * pause, LAST_PAUSE_US);
	}
}
