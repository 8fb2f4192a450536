/*
 * database.c - one statement on a connection of our own, for the verbs that book nothing
 *
 * Plain blocking libpq will do for them: there is nothing to give back when a signal
 * ends us.
 */
#define _GNU_SOURCE

#include <endian.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* NULL: no connection, and that has been said. */
PGconn *
connect_database(const Options *o)
{
	char	   *conninfo = options_conninfo(o);
	const char *keywords[] = {"fallback_application_name", "connect_timeout", "dbname", NULL};
	const char *values[] = {"pgpacer", getenv("PGCONNECT_TIMEOUT") ? NULL : "10", conninfo, NULL};
	PGconn	   *conn;

	if (!conninfo)
		return NULL;
	conn = PQconnectdbParams(keywords, values, 1);
	free(conninfo);
	if (PQstatus(conn) == CONNECTION_OK)
		return conn;
	complain(o, "%.*s", (int) strcspn(PQerrorMessage(conn), "\n"), PQerrorMessage(conn));
	PQfinish(conn);
	return NULL;
}

static bool
is_missing_extension(const char *sqlstate)
{
	return strcmp(sqlstate, "3F000") == 0 || strcmp(sqlstate, "42883") == 0 || strcmp(sqlstate, "42P01") == 0;
}

/* True if the statement did what it should; otherwise says what was wrong. */
bool
result_ok(const Options *o, const PGconn *conn, const PGresult *res)
{
	const char *sqlstate = PQresultErrorField(res, PG_DIAG_SQLSTATE);
	const char *primary = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);
	const char *detail = PQresultErrorField(res, PG_DIAG_MESSAGE_DETAIL);

	if (PQresultStatus(res) == PGRES_TUPLES_OK || PQresultStatus(res) == PGRES_COMMAND_OK)
		return true;
	if (!sqlstate || !primary)
		complain(o, "%.*s", (int) strcspn(PQerrorMessage(conn), "\n"), PQerrorMessage(conn));
	else
		complain(o, "%s%s%s%s%s", is_missing_extension(sqlstate) ? "pg_pacer is not installed in this database: " : "",
				 primary, detail ? " (" : "", detail ? detail : "", detail ? ")" : "");
	return false;
}

/* Adds a parameter, whose value must outlive the statement; NULL is SQL's NULL. */
void
bind_text(Parameters *p, const char *value)
{
	p->types[p->n] = 25;		/* text */
	p->values[p->n] = value;
	p->formats[p->n++] = 0;
}

void
bind_int(Parameters *p, int32_t value)
{
	uint32_t	be = htobe32((uint32_t) value);

	p->types[p->n] = 23;		/* int4 */
	p->values[p->n] = memcpy(p->binary[p->n], &be, sizeof be);
	p->lengths[p->n] = sizeof be;
	p->formats[p->n++] = 1;
}

/* In binary, as the library does: no text format to get wrong, no microsecond lost. */
void
bind_interval(Parameters *p, int64_t us)
{
	uint64_t	be[2] = {htobe64((uint64_t) us), 0};	/* days and months are zero */

	p->types[p->n] = 1186;		/* interval */
	p->values[p->n] = memcpy(p->binary[p->n], be, sizeof be);
	p->lengths[p->n] = sizeof be;
	p->formats[p->n++] = 1;
}

PGresult *
run_statement(PGconn *conn, const char *sql, const Parameters *p, bool binary)
{
	return PQexecParams(conn, sql, p->n, p->types, p->values, p->lengths, p->formats, binary);
}
