/*
 * verbs.c - book, confirm, release, create; and what all verbs need
 */
#define _GNU_SOURCE

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cli.h"

/* 0, or an exit status after having complained.  *h is to be closed in any case. */
int
open_handle(const Options *o, pgpacer **h)
{
	pgpacer_options options = PGPACER_OPTIONS_INIT;
	char	   *conninfo = options_conninfo(o);
	int			rc;

	*h = NULL;
	if (!conninfo)
		return EXIT_FAILED;
	options.database_wait_us = o->database_wait_us;
	rc = pgpacer_open(h, conninfo, &options);
	free(conninfo);
	return exit_status(o, *h, rc, NULL);
}

/* The exit status for a code of the library; says what went wrong.  May die by a signal. */
int
exit_status(const Options *o, pgpacer *h, int rc, pgpacer_cancel *cancel)
{
	switch (rc)
	{
		case PGPACER_OK:
			return 0;
		case PGPACER_CANCELLED:
			/* only signals fire our token; nothing needs to be said */
			die_by_signal(pgpacer_cancel_reason(cancel));
		case PGPACER_FULL:
		case PGPACER_TOO_LATE:
		case PGPACER_DEADLINE:
			complain(o, "%s", pgpacer_errmsg(h));
			return EXIT_REFUSED;
		case PGPACER_NOT_INSTALLED:
			complain(o, "pg_pacer is not installed in this database: %s", pgpacer_errmsg(h));
			return EXIT_FAILED;
		case PGPACER_UNKNOWN:
			complain(o, "no answer from the database, a slot may have been booked in vain: %s", pgpacer_errmsg(h));
			return EXIT_FAILED;
		default:
			complain(o, "%s", pgpacer_errmsg(h));
			return EXIT_FAILED;
	}
}

pgpacer_book_options
booking_options(const Options *o, pgpacer_cancel *cancel)
{
	pgpacer_book_options options = PGPACER_BOOK_OPTIONS_INIT;

	options.permits = o->permits;
	options.max_wait_us = o->max_wait_us;
	options.key = o->key;
	options.cancel = cancel;
	options.confirm = o->confirm;
	return options;
}

/* The token that signals fire, with the deadline asked for. */
pgpacer_cancel *
make_token(const Options *o)
{
	pgpacer_cancel *cancel = pgpacer_cancel_new();

	if (!cancel)
	{
		complain(o, "could not make a pipe");
		exit(EXIT_FAILED);
	}
	if (o->deadline_us != PGPACER_NO_LIMIT)
		pgpacer_cancel_deadline(cancel, o->deadline_us);
	signals_catch(cancel);
	return cancel;
}

void
need_args(const Options *o, int min, int max, const char *what)
{
	if (o->nargs < min || o->nargs > max)
		usage_error("usage: pgpacer %s %s", o->verb, what);
}

void
print_time(int64_t unix_us)
{
	time_t		seconds = (time_t) (unix_us / 1000000);
	struct tm	t;
	char		text[64];

	if (unix_us < 0 || unix_us == PGPACER_NO_LIMIT || !gmtime_r(&seconds, &t) ||
		strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &t) == 0)
		fputs("infinity", stdout);
	else
		printf("%s.%06dZ", text, (int) (unix_us % 1000000));
}

static void
print_wait(int64_t us)
{
	printf("%" PRId64 ".%06" PRId64, us / 1000000, us % 1000000);
}

/* What has been printed is a ticket somebody wants: a full disk is a failure. */
int
flush_output(const Options *o)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	complain(o, "could not write to stdout");
	return EXIT_FAILED;
}

int
verb_book(const Options *o)
{
	pgpacer    *h;
	pgpacer_booking b;
	pgpacer_cancel *cancel;
	pgpacer_book_options options;
	int			status;

	need_args(o, 1, 1, "SOURCE");
	cancel = make_token(o);
	options = booking_options(o, cancel);
	status = open_handle(o, &h);
	if (status == 0)
		status = exit_status(o, h, pgpacer_book(h, o->args[0], &options, &b), cancel);
	if (status == 0)
	{
		printf("%" PRId64 "\t", b.ticket);
		print_time(b.slot_at_us);
		fputc('\t', stdout);
		print_wait(b.wait_us);
		fputc('\n', stdout);
		status = flush_output(o);
	}
	pgpacer_close(h);
	pgpacer_cancel_free(cancel);
	return status;
}

static void
ticket_args(const Options *o, pgpacer_booking *b)
{
	int64_t		ticket;

	need_args(o, 2, 2, "SOURCE TICKET");
	if (!parse_int(o->args[1], 1, INT64_MAX, &ticket))
		usage_error("invalid ticket \"%s\"", o->args[1]);
	if (pgpacer_booking_init(b, o->args[0], ticket, 0) != PGPACER_OK)
		usage_error("invalid source \"%s\"", o->args[0]);
}

int
verb_confirm(const Options *o)
{
	pgpacer    *h;
	pgpacer_booking b;
	int			status;
	int			rc;

	ticket_args(o, &b);
	status = open_handle(o, &h);
	if (status == 0)
	{
		rc = pgpacer_confirm(h, &b, NULL);
		status = exit_status(o, h, rc == PGPACER_WAIT ? PGPACER_OK : rc, NULL);
	}
	if (status == 0)
	{
		print_wait(b.wait_us);
		fputc('\n', stdout);
		status = flush_output(o);
	}
	pgpacer_close(h);
	return status;
}

int
verb_release(const Options *o)
{
	static const char *const names[] = {"unknown", "unknown", "started", "released", "passed", "unknown"};
	pgpacer    *h;
	pgpacer_booking b;
	int			status;

	ticket_args(o, &b);
	status = open_handle(o, &h);
	if (status == 0)
		status = exit_status(o, h, pgpacer_release(h, &b), NULL);
	if (status == 0)
	{
		puts(names[b.state]);
		status = flush_output(o);
	}
	pgpacer_close(h);
	return status;
}

int
verb_create(const Options *o)
{
	pgpacer_source_options options = o->source;
	pgpacer    *h;
	int			status;

	need_args(o, 2, 2, "SOURCE INTERVAL");
	if (!parse_interval(o->args[1], &options.interval_us))
		usage_error("invalid interval \"%s\"; write 500ms, 2s, 3/s or 100/min", o->args[1]);
	options.max_wait_us = o->max_wait_us;
	status = open_handle(o, &h);
	if (status == 0)
		status = exit_status(o, h, pgpacer_create_source(h, o->args[0], &options), NULL);
	pgpacer_close(h);
	return status;
}
