/*
 * stubs.c - what client/cli/show.c refers to and printable() does not call
 */
#include "cli.h"

void
complain(const Options *o, const char *fmt,...)
{
}

void
usage_error(const char *fmt,...)
{
	__builtin_trap();
}

PGconn *
connect_database(const Options *o)
{
	return NULL;
}

bool
result_ok(const Options *o, const PGconn *conn, const PGresult *res)
{
	return false;
}

void
bind_text(Parameters *p, const char *value)
{
}

PGresult *
run_statement(PGconn *conn, const char *sql, const Parameters *p, bool binary)
{
	return NULL;
}

void
need_args(const Options *o, int min, int max, const char *what)
{
}

int
flush_output(const Options *o)
{
	return 0;
}
