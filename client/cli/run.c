/*
 * run.c - run and wait: a command, or the caller, starts in its slot
 *
 * Guarantees: no slot, no start.  Once the command runs nothing of us is left: it has
 * our process, so its signals and its status are its own, and no session, no
 * descriptor and no password of ours.  With --pause-on we stay as its parent, see
 * child.c.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

static int
cannot_run(const Options *o, int error)
{
	complain(o, "could not run \"%s\": %s", o->command[0], strerror(error));
	return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXEC;
}

/* 0 if path is a program, else an errno. */
static int
check_program(const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return errno;
	if (!S_ISREG(st.st_mode) || access(path, X_OK) != 0)
		return EACCES;
	return 0;
}

/*
 * Looks for the command as execvp() will: a mistyped name is better told now than
 * after an hour's wait, and costs no slot.  Only a hint; execvp() decides.
 */
static int
find_command(const char *name)
{
	const char *path = getenv("PATH");
	int			error = ENOENT;

	if (strchr(name, '/') || !path)
		return strchr(name, '/') ? check_program(name) : 0;
	for (const char *dir = path;; dir++)
	{
		size_t		len = strcspn(dir, ":");
		char	   *file = NULL;
		int			found;

		if (asprintf(&file, "%.*s%s%s", (int) len, dir, len > 0 ? "/" : "", name) < 0)
			return ENOMEM;
		found = check_program(file);
		if (found == EACCES && access(file, F_OK) == 0)
			error = EACCES;		/* a folder of PATH that we may not enter has nothing for us */
		free(file);
		if (found == 0)
			return 0;
		dir += len;
		if (*dir == '\0')
			return error;
	}
}

static void
say_wait(const Options *o, const pgpacer_booking *b)
{
	char		text[40];

	print_duration(text, sizeof text, b->wait_us);
	if (o->verbose)
		complain(o, "%s: ticket %lld, start in %s", b->source, (long long) b->ticket, text);
}

/* Books and waits; 0: start now.  Leaves no connection behind. */
static int
acquire(const Options *o)
{
	pgpacer_cancel *cancel = make_token(o);
	pgpacer_book_options options = booking_options(o, cancel);
	pgpacer    *h;
	pgpacer_booking b;
	int			status = open_handle(o, &h);

	if (status == 0)
		status = exit_status(o, h, pgpacer_book(h, o->args[0], &options, &b), cancel);
	if (status == 0)
	{
		say_wait(o, &b);
		status = exit_status(o, h, pgpacer_start(h, &b, &options), cancel);
	}
	pgpacer_close(h);
	if (status == 0)
		signals_let_go();		/* the token is needed up to here */
	return status;
}

/* Returns only if the command cannot be run: the status for that, which has been said. */
int
exec_command(const Options *o)
{
	execvp(o->command[0], o->command);
	return cannot_run(o, errno);
}

int
verb_run(const Options *o)
{
	int			error;
	int			status;

	if (o->nargs != 1 || !o->command)
		usage_error("usage: pgpacer run SOURCE -- COMMAND [ARG]...");
	error = find_command(o->command[0]);
	if (error != 0)
		return cannot_run(o, error);
	status = acquire(o);
	if (status != 0)
		return status;
	return o->npause_on > 0 ? run_child(o) : exec_command(o);
}

int
verb_wait(const Options *o)
{
	if (o->nargs != 1)
		usage_error("usage: pgpacer wait SOURCE");
	return acquire(o);
}
