/*
 * internal.h - what the files of libpgpacer share
 *
 * Nothing here is exported: the library is compiled with hidden visibility and
 * linked with pgpacer.map.  Times named *_us without further words are absolute, on
 * the monotonic clock of clock_us(); PGPACER_NO_LIMIT means never.
 */
#ifndef PGPACER_INTERNAL_H
#define PGPACER_INTERNAL_H

#include <libpq-fe.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "pgpacer.h"

/* what pgpacer_book_options.confirm = 0 means */
#define CONFIRM_BY_DEFAULT	true

/* type OIDs of pg_type.dat, fixed for ever; libpq installs no header for them */
#define OID_BOOL			16
#define OID_INT8			20
#define OID_INT4			23
#define OID_TEXT			25
#define OID_TIMESTAMPTZ		1184
#define OID_INTERVAL		1186

#define MAX_PARAMS			10

/* One host of a list in the connection string; port may be NULL. */
typedef struct Target
{
	char	   *host;
	char	   *hostaddr;
	char	   *port;
} Target;

struct pgpacer
{
	pid_t		pid;			/* of the process that may use it */
	atomic_flag busy;			/* set while a call runs */
	PGconn	   *conn;			/* NULL or, between calls, idle */
	bool		warned;			/* the server sent a WARNING (SQLSTATE 01000) */
	int64_t		away_next_us;	/* without a database: nothing starts before */
	int64_t		grace_end_us;	/* 0, or when a call whose token has fired must be over */
	PQconninfoOption *params;	/* the parsed connection string */
	Target	   *targets;		/* its hosts, if it lists several */
	int			ntargets;
	pgpacer_options opt;
	char	   *application_name;
	char		sqlstate[6];
	char		errmsg[1024];
};

/* A statement with its parameters, all of them bound, numbers and times in binary. */
typedef struct Statement
{
	const char *sql;
	int			nparams;
	Oid			types[MAX_PARAMS];
	const char *values[MAX_PARAMS];
	int			lengths[MAX_PARAMS];
	int			formats[MAX_PARAMS];
	char		binary[MAX_PARAMS][16];
} Statement;

/* What bounds one public call. */
typedef struct Bounds
{
	pgpacer_cancel *cancel;		/* may be NULL */
	int64_t		end_us;			/* no network step goes on beyond this */
	int64_t		unreachable_us; /* until when an unreachable database is tried again */
	int64_t		crowded_us;		/* until when "too many connections" is */
	bool		retried;		/* out: it was, so time has gone by */
} Bounds;

/* handle.c */
extern int	handle_enter(pgpacer *h);
extern int	handle_leave(pgpacer *h, int rc);
extern int	handle_fail(pgpacer *h, int rc, const char *fmt,...) __attribute__((format(printf, 3, 4)));
extern int	handle_cancelled(pgpacer *h, pgpacer_cancel *cancel);
extern int64_t handle_grace_end(pgpacer *h);
extern Bounds handle_bounds(const pgpacer *h, pgpacer_cancel *cancel);
extern bool options_copy(void *to, size_t to_size, const void *from);

/* hosts.c */
extern int	hosts_split(pgpacer *h);
extern void hosts_free(pgpacer *h);

/* connection.c */
extern int	connection_open(pgpacer *h, Bounds *bounds);
extern void connection_drop(pgpacer *h);
extern void connection_abandon(pgpacer *h);

/* statement.c */
extern void statement_init(Statement *s, const char *sql);
extern void add_null(Statement *s, Oid type);
extern void add_text(Statement *s, const char *value);
extern void add_bool(Statement *s, bool value);
extern void add_int4(Statement *s, int32_t value);
extern void add_int8(Statement *s, int64_t value);
extern void add_interval(Statement *s, int64_t us);
extern void add_timestamptz(Statement *s, int64_t unix_us);
extern bool get_int8(const PGresult *res, int column, int64_t *value);
extern bool get_interval(const PGresult *res, int column, int64_t *us);
extern bool get_timestamptz(const PGresult *res, int column, int64_t *unix_us);

/* query.c */
extern int	query_run(pgpacer *h, const Statement *s, Bounds *bounds, PGresult **res, int64_t *arrived_us);
extern int	query_run_idempotent(pgpacer *h, const Statement *s, Bounds *bounds, PGresult **res, int64_t *arrived_us);
extern int	code_of_sqlstate(const char *sqlstate);

/* server_cancel.c */
extern bool server_cancel(PGconn *conn, int64_t until_us);

/* wait.c */
typedef enum Woken
{
	WOKEN_READY,				/* the descriptor is */
	WOKEN_TIMEOUT,
	WOKEN_CANCELLED,
	WOKEN_FAILED				/* see errno */
} Woken;

extern int64_t clock_us(void);
extern int64_t later_us(int64_t from_us, int64_t by_us);
extern int64_t sooner_us(int64_t a_us, int64_t b_us);
extern Woken wait_for(int fd, short events, pgpacer_cancel *cancel, int64_t until_us);

/* cancel.c */
extern int64_t cancel_deadline_us(const pgpacer_cancel *c);

/* booking.c */
extern int	book_within(pgpacer *h, const char *source, const pgpacer_book_options *o, pgpacer_booking *b);
extern bool is_away(const pgpacer *h, int rc);
extern void away_start(pgpacer *h, pgpacer_booking *b);
extern int	release_within(pgpacer *h, pgpacer_booking *b, Bounds *bounds);
extern void release_in_grace(pgpacer *h, pgpacer_booking *b);

#endif							/* PGPACER_INTERNAL_H */
