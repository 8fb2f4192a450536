/*
 * options.c - the command line
 */
#define _GNU_SOURCE

#include <getopt.h>
#include <langinfo.h>
#include <libpq-fe.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum
{
	OPT_DSN = 256, OPT_DATABASE_WAIT, OPT_PERMITS, OPT_MAX_WAIT, OPT_DEADLINE, OPT_KEY, OPT_TRY, OPT_CONFIRM,
	OPT_NO_CONFIRM, OPT_PAUSE_ON,
	OPT_INTERVAL, OPT_BURST, OPT_MAX_WAITING, OPT_QUOTA, OPT_REMEMBERED, OPT_IF_NOT_EXISTS,
	OPT_RENAME, OPT_IF_EXISTS, OPT_EVERY, OPT_COUNT, OPT_CSV, OPT_JSON, OPT_HELP
};

static const struct option long_options[] = {
	{"host", required_argument, NULL, 'h'},
	{"port", required_argument, NULL, 'p'},
	{"username", required_argument, NULL, 'U'},
	{"dbname", required_argument, NULL, 'd'},
	{"dsn", required_argument, NULL, OPT_DSN},
	{"no-password", no_argument, NULL, 'w'},
	{"database-wait", required_argument, NULL, OPT_DATABASE_WAIT},
	{"permits", required_argument, NULL, OPT_PERMITS},
	{"max-wait", required_argument, NULL, OPT_MAX_WAIT},
	{"deadline", required_argument, NULL, OPT_DEADLINE},
	{"key", required_argument, NULL, OPT_KEY},
	{"try", no_argument, NULL, OPT_TRY},
	{"confirm", no_argument, NULL, OPT_CONFIRM},
	{"no-confirm", no_argument, NULL, OPT_NO_CONFIRM},
	{"pause-on", required_argument, NULL, OPT_PAUSE_ON},
	{"interval", required_argument, NULL, OPT_INTERVAL},
	{"burst", required_argument, NULL, OPT_BURST},
	{"max-waiting", required_argument, NULL, OPT_MAX_WAITING},
	{"quota", required_argument, NULL, OPT_QUOTA},
	{"remembered", required_argument, NULL, OPT_REMEMBERED},
	{"if-not-exists", no_argument, NULL, OPT_IF_NOT_EXISTS},
	{"rename", required_argument, NULL, OPT_RENAME},
	{"if-exists", no_argument, NULL, OPT_IF_EXISTS},
	{"every", required_argument, NULL, OPT_EVERY},
	{"count", required_argument, NULL, OPT_COUNT},
	{"csv", no_argument, NULL, OPT_CSV},
	{"json", no_argument, NULL, OPT_JSON},
	{"quiet", no_argument, NULL, 'q'},
	{"verbose", no_argument, NULL, 'v'},
	{"version", no_argument, NULL, 'V'},
	{"help", no_argument, NULL, OPT_HELP},
	{NULL, 0, NULL, 0}
};

static const char help[] =
"pgpacer starts commands at the pace that a shared service tolerates.\n"
"\n"
"Usage:\n"
"  pgpacer run [OPTION]... SOURCE -- COMMAND [ARG]...   run COMMAND in the next slot\n"
"  pgpacer wait [OPTION]... SOURCE                      return in the next slot\n"
"  pgpacer book [OPTION]... SOURCE                      book a slot; print ticket, time, seconds to wait\n"
"  pgpacer confirm [OPTION]... SOURCE TICKET            record the start; print seconds still to wait\n"
"  pgpacer release [OPTION]... SOURCE TICKET            give a slot back; print what became of it\n"
"  pgpacer pause [OPTION]... SOURCE TIME                start nothing for TIME, or infinity; print until when\n"
"  pgpacer resume [OPTION]... SOURCE                    end a pause\n"
"  pgpacer create [OPTION]... SOURCE INTERVAL           make a source; INTERVAL: 500ms, 2s, 3/s, 100/min\n"
"  pgpacer alter SOURCE OPTION...                       change its configuration\n"
"  pgpacer drop [OPTION]... SOURCE                      remove it with its schedule\n"
"  pgpacer list [OPTION]...                             the sources and their configuration\n"
"  pgpacer status [OPTION]... [SOURCE]                  the sources and their state\n"
"  pgpacer top [OPTION]...                              the same, live; q quits\n"
"\n"
"Booking (run, wait, book):\n"
"      --max-wait=TIME      refuse a longer wait (500ms, 2s, 1min, 1h; a bare number is seconds)\n"
"      --try                only an immediate start: --max-wait=0\n"
"      --deadline=TIME      give up if not started by then\n"
"      --permits=N          the start takes N intervals (default 1)\n"
"      --key=TEXT           find the slot held under TEXT instead of booking another\n"
"      --no-confirm         start in the slot without asking the server again (run, wait)\n"
"      --pause-on=N:TIME    run: pause the source for TIME if COMMAND exits with N; may be repeated\n"
"\n"
"Sources (create, alter):\n"
"      --interval=INTERVAL  alter: least time between two starts\n"
"      --burst=N            starts that may come at once after idling (default 1)\n"
"      --max-waiting=N      callers that may wait, or none for no bound (default 100)\n"
"      --max-wait=TIME      longest wait given, or none for no bound\n"
"      --quota=N/TIME       at most N starts in each window of TIME, or none\n"
"      --remembered=N       create: bookings remembered (4 to 200, default 32)\n"
"      --rename=NAME        alter: another name\n"
"      --if-not-exists      create: no error if there is one, which stays as it is\n"
"      --if-exists          drop: no error if there is none\n"
"\n"
"Output:\n"
"      --csv, --json        list, status: instead of a table\n"
"      --every=TIME         top: between two looks (default 1s)\n"
"      --count=N            top: end after N looks\n"
"  -q, --quiet              no messages\n"
"  -v, --verbose            say on stderr what is being waited for\n"
"  -V, --version            print the version\n"
"      --help               print this\n"
"\n"
"Connection, as psql:\n"
"  -h, --host=HOST          -p, --port=PORT    -U, --username=NAME\n"
"  -d, --dbname=DBNAME      a database's name or a connection string; also --dsn\n"
"  -w, --no-password        accepted; no password is ever asked for\n"
"      --database-wait=TIME keep trying that long if the database cannot be reached\n"
"\n"
"Exit status: that of COMMAND; 124 refused or deadline; 125 pgpacer failed; 126 COMMAND cannot\n"
"be run; 127 COMMAND not found; 64 wrong usage; 128+n ended by signal n.\n";

void
usage_error(const char *fmt,...)
{
	va_list		args;

	fputs("pgpacer: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputs("\nTry \"pgpacer --help\".\n", stderr);
	exit(EXIT_USAGE);
}

void
complain(const Options *o, const char *fmt,...)
{
	va_list		args;

	if (o->quiet)
		return;
	fputs("pgpacer: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
}

/*
 * Takes a connection string off the command line, where ps shows it to every user.
 * The whole argument goes if it holds a password or cannot be judged; what cannot be
 * helped is the moment before we get here.
 */
static char *
take_secret(char *arg)
{
	char	   *copy = strdup(arg);
	PQconninfoOption *parsed;
	bool		secret = false;

	if (!copy)
		exit(EXIT_FAILED);
	if (!strchr(arg, '=') && !strstr(arg, "://"))
		return copy;			/* a database's name */
	parsed = PQconninfoParse(arg, NULL);
	for (PQconninfoOption *p = parsed; p && p->keyword; p++)
		secret |= p->val && (strcmp(p->keyword, "password") == 0 || strcmp(p->keyword, "sslpassword") == 0);
	if (secret || !parsed)
		memset(arg, 'x', strlen(arg));
	PQconninfoFree(parsed);
	return copy;
}

static int64_t
duration_arg(const char *option, const char *arg)
{
	int64_t		us;

	if (!parse_duration(arg, &us))
		usage_error("invalid time \"%s\" for %s; write 500ms, 2s, 1min or 1h", arg, option);
	return us;
}

static int
int_arg(const char *option, const char *arg, int64_t min)
{
	int64_t		value;

	if (!parse_int(arg, min, INT32_MAX, &value))
		usage_error("invalid number \"%s\" for %s", arg, option);
	return (int) value;
}

/* "STATUS:TIME" */
static void
add_pause_on(Options *o, const char *arg)
{
	const char *colon = strchr(arg, ':');
	char		number[4] = "";
	int64_t		status;
	PauseOn    *p = &o->pause_on[o->npause_on];

	if (o->npause_on == (int) (sizeof o->pause_on / sizeof o->pause_on[0]))
		usage_error("too many --pause-on");
	if (colon && (size_t) (colon - arg) < sizeof number)
		memcpy(number, arg, (size_t) (colon - arg));
	if (!parse_int(number, 0, 255, &status) || !parse_pause(colon + 1, &p->duration_us) || p->duration_us <= 0)
		usage_error("invalid --pause-on \"%s\"; write 22:30s, or 22:infinity", arg);
	p->status = (int) status;
	o->npause_on++;
}

static void
show_and_exit(const char *text)
{
	fputs(text, stdout);
	if (fflush(stdout) != 0)
		exit(EXIT_FAILED);
	exit(0);
}

/* One option; optarg is getopt's. */
static void
set_option(Options *o, int opt)
{
	switch (opt)
	{
		case 'h':
			o->host = optarg;
			break;
		case 'p':
			o->port = optarg;
			break;
		case 'U':
			o->user = optarg;
			break;
		case 'd':
		case OPT_DSN:
			free(o->dbname);
			o->dbname = take_secret(optarg);
			break;
		case 'w':
			break;
		case OPT_DATABASE_WAIT:
			o->database_wait_us = duration_arg("--database-wait", optarg);
			break;
		case OPT_PERMITS:
			o->permits = int_arg("--permits", optarg, 1);
			break;
		case OPT_MAX_WAIT:
			o->max_wait_us = strcmp(optarg, "none") == 0 ? PGPACER_NO_LIMIT : duration_arg("--max-wait", optarg);
			o->given |= GIVEN_MAX_WAIT;
			break;
		case OPT_DEADLINE:
			o->deadline_us = duration_arg("--deadline", optarg);
			break;
		case OPT_KEY:
			o->key = optarg;
			break;
		case OPT_TRY:
			o->max_wait_us = 0;
			break;
		case OPT_CONFIRM:
			o->confirm = 1;
			break;
		case OPT_NO_CONFIRM:
			o->confirm = -1;
			break;
		case OPT_PAUSE_ON:
			add_pause_on(o, optarg);
			break;
		case OPT_INTERVAL:
			if (!parse_interval(optarg, &o->source.interval_us))
				usage_error("invalid interval \"%s\"; write 500ms, 2s, 3/s or 100/min", optarg);
			o->given |= GIVEN_INTERVAL;
			break;
		case OPT_BURST:
			o->source.burst = int_arg("--burst", optarg, 1);
			o->given |= GIVEN_BURST;
			break;
		case OPT_MAX_WAITING:
			o->given |= GIVEN_MAX_WAITING;
			o->source.max_waiting = strcmp(optarg, "none") == 0 ? -1 : int_arg("--max-waiting", optarg, 0);
			break;
		case OPT_QUOTA:
			o->given |= GIVEN_QUOTA;
			o->source.quota = 0;
			o->source.quota_window_us = 0;
			if (strcmp(optarg, "none") != 0 && !parse_quota(optarg, &o->source.quota, &o->source.quota_window_us))
				usage_error("invalid quota \"%s\"; write 1000/d, 50/10min or none", optarg);
			break;
		case OPT_REMEMBERED:
			o->source.remembered = int_arg("--remembered", optarg, 1);
			o->given |= GIVEN_REMEMBERED;
			break;
		case OPT_IF_NOT_EXISTS:
			o->source.if_not_exists = 1;
			break;
		case OPT_RENAME:
			o->rename = optarg;
			o->given |= GIVEN_RENAME;
			break;
		case OPT_IF_EXISTS:
			o->if_exists = true;
			break;
		case OPT_EVERY:
			o->every_us = duration_arg("--every", optarg);
			if (o->every_us < 10000 || o->every_us > INT64_C(86400000000))
				usage_error("--every takes 10ms to 1d");
			break;
		case OPT_COUNT:
			o->count = int_arg("--count", optarg, 1);
			break;
		case OPT_CSV:
			o->format = FORMAT_CSV;
			break;
		case OPT_JSON:
			o->format = FORMAT_JSON;
			break;
		case 'q':
			o->quiet = true;
			break;
		case 'v':
			o->verbose = true;
			break;
		case 'V':
			printf("pgpacer %s\n", pgpacer_version());
			show_and_exit("");
			break;
		case OPT_HELP:
			show_and_exit(help);
			break;
		default:				/* getopt has said what is wrong */
			fputs("Try \"pgpacer --help\".\n", stderr);
			exit(EXIT_USAGE);
	}
}

static void
add_argument(Options *o, const char *arg)
{
	if (!o->verb)
		o->verb = arg;
	else if (o->nargs < (int) (sizeof o->args / sizeof o->args[0]))
		o->args[o->nargs++] = arg;
	else
		usage_error("too many arguments: \"%s\"", arg);
}

/*
 * Options may stand anywhere up to "--", except that after the source of "run" the
 * first word that is none begins the command, whose options are not ours.
 */
void
options_parse(Options *o, int argc, char **argv)
{
	bool		behind = false; /* "--", that is: options are over */

	*o = (Options) {
		.permits = 1,.max_wait_us = PGPACER_NO_LIMIT,.deadline_us = PGPACER_NO_LIMIT,
			.every_us = 1000000,.source = PGPACER_SOURCE_OPTIONS_INIT
	};

	while (optind < argc)
	{
		int			at = optind;
		int			opt = behind ? -1 : getopt_long(argc, argv, "+h:p:U:d:wqvV", long_options, NULL);

		if (opt != -1)
		{
			set_option(o, opt);
			continue;
		}
		behind |= optind > at;
		if (optind == argc)
			break;
		if (o->verb && strcmp(o->verb, "run") == 0 && o->nargs == 1)
		{
			o->command = &argv[optind];
			break;
		}
		add_argument(o, argv[optind++]);
	}
}

/* Appends " keyword='value'", quoted as libpq wants it. */
static void
append_param(FILE *out, const char *keyword, const char *value)
{
	if (!value)
		return;
	fprintf(out, " %s='", keyword);
	for (; *value; value++)
	{
		if (*value == '\'' || *value == '\\')
			fputc('\\', out);
		fputc(*value, out);
	}
	fputc('\'', out);
}

/*
 * One connection string out of -d, -h, -p and -U, which win over what -d says, as in
 * psql.  NULL: it does not parse, and that has been said.  The caller frees it.
 */
char *
options_conninfo(const Options *o)
{
	bool		is_string = o->dbname && (strchr(o->dbname, '=') || strstr(o->dbname, "://"));
	bool		encoding_given = false;
	char	   *why = NULL;
	PQconninfoOption *parsed = PQconninfoParse(is_string ? o->dbname : "", &why);
	char	   *text = NULL;
	size_t		size;
	FILE	   *out;

	if (!parsed)
	{
		complain(o, "%.*s", why ? (int) strcspn(why, "\n") : 13, why ? why : "out of memory");
		PQfreemem(why);
		return NULL;
	}
	out = open_memstream(&text, &size);
	if (!out)
		exit(EXIT_FAILED);
	for (PQconninfoOption *p = parsed; p->keyword; p++)
	{
		append_param(out, p->keyword, p->val);
		encoding_given |= p->val && strcmp(p->keyword, "client_encoding") == 0;
	}
	if (o->dbname && !is_string)
		append_param(out, "dbname", o->dbname);
	append_param(out, "host", o->host);
	append_param(out, "port", o->port);
	append_param(out, "user", o->user);

	/*
	 * Names on the command line and on the terminal are in the locale's encoding.  The C
	 * locale has none, and then they are taken for the database's.
	 */
	if (!encoding_given && !getenv("PGCLIENTENCODING") && strcmp(nl_langinfo(CODESET), "ANSI_X3.4-1968") != 0)
		append_param(out, "client_encoding", "auto");
	PQconninfoFree(parsed);
	if (fclose(out) != 0)
		exit(EXIT_FAILED);
	return text;
}
