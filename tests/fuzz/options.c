/*
 * options.c - the command line, and the connection string made of it
 *
 * The input's lines are the arguments. Compiled together with client/cli/options.c,
 * whose exit() comes back here.
 */
#include <setjmp.h>
#include <stdnoreturn.h>

static jmp_buf out;
static int	status;

static noreturn void
leave(int with)
{
	status = with;
	longjmp(out, 1);
}

/* what it prints is not looked at; "exit" stands in no header below */
#include <getopt.h>
#include <langinfo.h>
#include <libpq-fe.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define exit leave
#include "../../client/cli/options.c"
#undef exit

#include "fuzz.h"

const char *
pgpacer_version(void)
{
	return "0";
}

static const char *
value_of(const PQconninfoOption *list, const char *keyword)
{
	for (const PQconninfoOption *p = list; p->keyword; p++)
		if (strcmp(p->keyword, keyword) == 0)
			return p->val;
	return NULL;
}

/* What was given with an option of its own is found in the string again, whatever is in it. */
static void
check_conninfo(const Options *o)
{
	char	   *conninfo = options_conninfo(o);
	PQconninfoOption *parsed;

	if (!conninfo)
		return;
	parsed = PQconninfoParse(conninfo, NULL);
	REQUIRE(parsed != NULL);
	if (o->host)
		REQUIRE(strcmp(value_of(parsed, "host"), o->host) == 0);
	if (o->port)
		REQUIRE(strcmp(value_of(parsed, "port"), o->port) == 0);
	if (o->user)
		REQUIRE(strcmp(value_of(parsed, "user"), o->user) == 0);
	PQconninfoFree(parsed);
	free(conninfo);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static Options o;
	char	   *argv[18] = {strdup("pgpacer")};
	int			argc = 1;
	char	   *text = text_of(data, size);
	static bool silent;

	if (!silent)
		silent = freopen("/dev/null", "w", stdout) != NULL;
	opterr = 0;
	optind = 0;					/* getopt begins anew */
	for (char *word = strtok(text, "\n"); word && argc < 17; word = strtok(NULL, "\n"))
		argv[argc++] = strdup(word);
	free(text);
	memset(&o, 0, sizeof o);
	if (setjmp(out) == 0)
	{
		options_parse(&o, argc, argv);
		REQUIRE(o.permits >= 1 && o.npause_on <= 8 && o.nargs <= 3 && o.count >= 0);
		REQUIRE(o.max_wait_us >= 0 && o.deadline_us >= 0 && o.database_wait_us >= 0);
		check_conninfo(&o);
	}
	else
		REQUIRE(status == 0 || status == EXIT_USAGE);
	free(o.dbname);
	for (int i = 0; i < argc; i++)
		free(argv[i]);
	return 0;
}
