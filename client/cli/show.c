/*
 * show.c - list and status: a table for people, CSV or JSON for programs
 */
#define _GNU_SOURCE

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define LIST_COLUMNS \
	"name AS source, start_interval AS interval, burst, max_waiting, max_wait, quota, " \
	"quota_window, remembered"
#define STATUS_COLUMNS \
	"name AS source, start_interval AS interval, waiting, next_request_at, paused_until, quota_left, " \
	"last_start, booked, refused, released, confirmed, late, waited, run_ok"

/*
 * A copy in which no control character is left to break the table, or to be obeyed by
 * a terminal (also those of Unicode beyond ASCII).  The caller frees it.
 */
char *
printable(const char *text)
{
	char	   *copy = NULL;
	size_t		size;
	FILE	   *out = open_memstream(&copy, &size);

	if (!out)
		exit(EXIT_FAILED);
	for (const unsigned char *p = (const unsigned char *) text; *p; p++)
	{
		if (*p == '\n' || *p == '\t')
			fputs(*p == '\n' ? "\\n" : "\\t", out);
		else if (*p < 0x20 || *p == 0x7f)
			fprintf(out, "\\x%02x", *p);
		else if (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)
			fprintf(out, "\\x%02x", *++p);
		else
			fputc(*p, out);
	}
	if (fclose(out) != 0)
		exit(EXIT_FAILED);
	return copy;
}

/* Width on the terminal: characters, not bytes, in UTF-8. */
static int
text_width(const PGconn *conn, const char *text)
{
	int			width = 0;
	int			encoding = PQclientEncoding(conn);
	int			len;

	for (const char *p = text; *p; p += len)
	{
		len = PQmblenBounded(p, encoding);
		width++;
	}
	return width;
}

static bool
is_number(const PGresult *res, int column)
{
	Oid			type = PQftype(res, column);

	return type == 20 || type == 23;	/* int8, int4 */
}

static void
print_cell(const PGconn *conn, const char *value, int width, bool right, bool last)
{
	char	   *text = printable(value);
	int			pad = width - text_width(conn, text);

	if (right)
		printf("%*s%s", pad, "", text);
	else
		printf("%s%*s", text, last ? 0 : pad, "");
	fputs(last ? "\n" : "  ", stdout);
	free(text);
}

static void
print_table(const PGconn *conn, const PGresult *res)
{
	int			ncolumns = PQnfields(res);
	int			width[32] = {0};

	for (int c = 0; c < ncolumns; c++)
	{
		width[c] = text_width(conn, PQfname(res, c));
		for (int r = 0; r < PQntuples(res); r++)
		{
			char	   *text = printable(PQgetvalue(res, r, c));
			int			w = text_width(conn, text);

			free(text);
			if (w > width[c])
				width[c] = w;
		}
	}
	for (int r = -1; r < PQntuples(res); r++)
		for (int c = 0; c < ncolumns; c++)
			print_cell(conn, r < 0 ? PQfname(res, c) : PQgetvalue(res, r, c), width[c], is_number(res, c),
					   c == ncolumns - 1);
}

static void
print_csv_field(const char *text, char end)
{
	bool		quote = strpbrk(text, ",\"\r\n") != NULL;

	if (quote)
		putchar('"');
	for (; *text; text++)
	{
		if (*text == '"')
			putchar('"');
		putchar(*text);
	}
	if (quote)
		putchar('"');
	putchar(end);
}

static void
print_csv(const PGresult *res)
{
	int			ncolumns = PQnfields(res);

	for (int r = -1; r < PQntuples(res); r++)
		for (int c = 0; c < ncolumns; c++)
			print_csv_field(r < 0 ? PQfname(res, c) : PQgetvalue(res, r, c), c == ncolumns - 1 ? '\n' : ',');
}

/* The name may be the only thing wrong: say so as booking does. */
static int
show_result(const Options *o, const PGconn *conn, const PGresult *res, const char *name)
{
	if (!result_ok(o, conn, res))
		return EXIT_FAILED;
	if (name && (PQntuples(res) == 0 || PQgetisnull(res, 0, 0)))
	{
		complain(o, "source \"%s\" does not exist", name);
		return EXIT_FAILED;
	}
	if (o->format == FORMAT_JSON)
		puts(PQgetisnull(res, 0, 0) ? "[]" : PQgetvalue(res, 0, 0));
	else if (o->format == FORMAT_CSV)
		print_csv(res);
	else
		print_table(conn, res);
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : EXIT_FAILED;
}

static int
show(const Options *o, const char *columns)
{
	const char *name = o->nargs > 0 ? o->args[0] : NULL;
	PGconn	   *conn = connect_database(o);
	char	   *sql;
	PGresult   *res;
	int			status;

	if (!conn)
		return EXIT_FAILED;
	if (asprintf(&sql, o->format == FORMAT_JSON ?
				 "SELECT json_agg(row_to_json(s)) FROM (SELECT %s FROM pacer.status "
				 "WHERE $1::text IS NULL OR name = $1 ORDER BY name) s" :
				 "SELECT %s FROM pacer.status WHERE $1::text IS NULL OR name = $1 ORDER BY name", columns) < 0)
		exit(EXIT_FAILED);
	res = PQexecParams(conn, sql, 1, NULL, &name, NULL, NULL, 0);
	status = show_result(o, conn, res, name);
	PQclear(res);
	PQfinish(conn);
	free(sql);
	return status;
}

int
verb_list(const Options *o)
{
	if (o->nargs > 1)
		usage_error("usage: pgpacer list [SOURCE]");
	return show(o, LIST_COLUMNS);
}

int
verb_status(const Options *o)
{
	if (o->nargs > 1)
		usage_error("usage: pgpacer status [SOURCE]");
	return show(o, STATUS_COLUMNS);
}
