/*
 * cli.h - what the files of the command pgpacer share
 */
#ifndef PGPACER_CLI_H
#define PGPACER_CLI_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "pgpacer.h"

/* exit statuses that are our own; the child's go through as they are */
enum
{
	EXIT_USAGE = 64,			/* EX_USAGE of sysexits.h */
	EXIT_REFUSED = 124,			/* refused, or a deadline passed */
	EXIT_FAILED = 125,			/* pgpacer itself failed */
	EXIT_CANNOT_EXEC = 126,		/* the command was found, but cannot be run */
	EXIT_NOT_FOUND = 127		/* the command was not found */
};

typedef enum Format
{
	FORMAT_TABLE,
	FORMAT_CSV,
	FORMAT_JSON
} Format;

/* create and alter: which options of the source were given */
enum
{
	GIVEN_INTERVAL = 1,
	GIVEN_BURST = 2,
	GIVEN_MAX_WAITING = 4,
	GIVEN_MAX_WAIT = 8,
	GIVEN_QUOTA = 16,
	GIVEN_REMEMBERED = 32,
	GIVEN_RENAME = 64
};

/* run: how long to pause the source when the command ends so */
typedef struct PauseOn
{
	int			status;
	int64_t		duration_us;	/* PGPACER_NO_LIMIT: until resumed */
} PauseOn;

typedef struct Options
{
	/* connection */
	char	   *dbname;			/* a name or a connection string, as psql -d */
	const char *host;
	const char *port;
	const char *user;
	int64_t		database_wait_us;

	/* booking */
	int			permits;
	int64_t		max_wait_us;
	int64_t		deadline_us;
	const char *key;
	int			confirm;		/* as pgpacer_book_options.confirm */

	/* run */
	PauseOn		pause_on[8];
	int			npause_on;

	/* create, alter, drop */
	pgpacer_source_options source;
	unsigned	given;			/* GIVEN_... */
	const char *rename;
	bool		if_exists;

	/* top */
	int64_t		every_us;
	int			count;			/* screens; 0: no end */

	/* output */
	bool		quiet;
	bool		verbose;
	Format		format;

	/* what is not an option */
	const char *verb;
	const char *args[3];
	int			nargs;
	char	  **command;		/* run: argv of the command, NULL if there is none */
} Options;

/* The parameters of a statement, all of them bound. */
#define MAX_PARAMETERS	10

typedef struct Parameters
{
	int			n;
	Oid			types[MAX_PARAMETERS];
	const char *values[MAX_PARAMETERS];
	int			lengths[MAX_PARAMETERS];
	int			formats[MAX_PARAMETERS];
	char		binary[MAX_PARAMETERS][16];
} Parameters;

/* options.c */
extern void options_parse(Options *o, int argc, char **argv);
extern char *options_conninfo(const Options *o);
extern void usage_error(const char *fmt,...) __attribute__((format(printf, 1, 2), noreturn));
extern void complain(const Options *o, const char *fmt,...) __attribute__((format(printf, 2, 3)));

/* duration.c */
extern bool parse_duration(const char *text, int64_t *us);
extern bool parse_interval(const char *text, int64_t *us);
extern bool parse_pause(const char *text, int64_t *us);
extern bool parse_quota(const char *text, int *quota, int64_t *window_us);
extern bool parse_int(const char *text, int64_t min, int64_t max, int64_t *value);
extern void print_duration(char *text, size_t size, int64_t us);

/* signals.c */
extern void signals_catch(pgpacer_cancel *cancel);
extern void signals_let_go(void);
extern void die_by_signal(int signo) __attribute__((noreturn));

/* database.c */
extern PGconn *connect_database(const Options *o);
extern bool result_ok(const Options *o, const PGconn *conn, const PGresult *res);
extern void bind_text(Parameters *p, const char *value);
extern void bind_int(Parameters *p, int32_t value);
extern void bind_interval(Parameters *p, int64_t us);
extern PGresult *run_statement(PGconn *conn, const char *sql, const Parameters *p, bool binary);

/* run.c, verbs.c, steer.c, show.c, top.c: the verbs; each returns an exit status */
extern int	verb_run(const Options *o);
extern int	verb_wait(const Options *o);
extern int	verb_book(const Options *o);
extern int	verb_confirm(const Options *o);
extern int	verb_release(const Options *o);
extern int	verb_create(const Options *o);
extern int	verb_pause(const Options *o);
extern int	verb_resume(const Options *o);
extern int	verb_alter(const Options *o);
extern int	verb_drop(const Options *o);
extern int	verb_list(const Options *o);
extern int	verb_status(const Options *o);
extern int	verb_top(const Options *o);

/* show.c */
extern char *printable(const char *text);

/* steer.c */
extern int	pause_source(const Options *o, const char *source, int64_t duration_us, int64_t *until_us);

/* run.c */
extern int	exec_command(const Options *o);

/* child.c */
extern int	run_child(const Options *o);

/* verbs.c */
extern int	open_handle(const Options *o, pgpacer **h);
extern int	exit_status(const Options *o, pgpacer *h, int rc, pgpacer_cancel *cancel);
extern pgpacer_book_options booking_options(const Options *o, pgpacer_cancel *cancel);
extern pgpacer_cancel *make_token(const Options *o);
extern void need_args(const Options *o, int min, int max, const char *what);
extern void print_time(int64_t unix_us);
extern int	flush_output(const Options *o);

#endif							/* PGPACER_CLI_H */
