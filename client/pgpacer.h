/*
 * pgpacer.h - libpgpacer, the client of pg_pacer
 *
 * A source is a service that tolerates one start every so often: an API, a mail
 * relay, a host that is crawled.  A caller books a slot with it, waits for the
 * slot without holding anything, and starts.  The schedule lives in PostgreSQL,
 * so any number of processes and machines share it.
 *
 *		#include <pgpacer.h>
 *		#include <stdio.h>
 *
 *		static void
 *		call_the_api(const pgpacer_booking *booking, void *arg)
 *		{
 *			...
 *		}
 *
 *		int
 *		main(void)
 *		{
 *			pgpacer    *h;
 *			int			rc = pgpacer_open(&h, "dbname=app", NULL);
 *
 *			if (rc == PGPACER_OK)
 *				rc = pgpacer_run(h, "api", NULL, call_the_api, NULL);
 *			if (rc != PGPACER_OK)
 *				fprintf(stderr, "not called: %s\n", pgpacer_errmsg(h));
 *			pgpacer_close(h);
 *			return rc != PGPACER_OK;
 *		}
 *
 * Link with `pkg-config --libs libpgpacer`.
 *
 * OWNERSHIP.  What a *_new or pgpacer_open makes, its _free or pgpacer_close
 * frees.  A pgpacer_booking is plain data of yours, to be copied or thrown away.
 * Strings given to a function are copied or not needed after its return; strings
 * returned live in the handle until its next call.
 *
 * THREADS.  A handle serves one call at a time; a second one that overlaps is
 * answered PGPACER_BUSY and does nothing.  Different handles are independent.  A
 * cancel token may be fired from any thread and from a signal handler.  A handle
 * belongs to the process that opened it: after fork() the child's calls on it are
 * answered PGPACER_FORKED and put no byte on the wire.
 *
 * ERRORS.  Functions that can fail return PGPACER_OK (0) or another value of
 * enum pgpacer_code; pgpacer_errmsg() and pgpacer_sqlstate() tell more about the
 * last call on the handle.  Decide by the code, never by the message, which the
 * server may translate.  Whatever is not PGPACER_OK means: do not start.
 *
 * MANNERS.  Nothing is printed, nothing exits, no signal handler or exit hook is
 * installed, no SIGPIPE is raised; descriptors are close-on-exec.
 *
 * BLOCKING.  All network steps are non-blocking, stop when the call's cancel
 * token fires, and are bounded by pgpacer_options.  One is not: looking up a host
 * name takes as long as the system's resolver lets it (use hostaddr=).
 *
 * TIME.  All times are int64_t microseconds; PGPACER_NO_LIMIT stands for "no
 * limit".  A wait is counted on this machine's monotonic clock from the server's
 * answer; wall clocks of client and server are never compared.
 *
 * OPTIONS.  Each options struct starts with its size and has an initializer that
 * sets it and every default; NULL means all defaults.  Later versions append
 * fields, and programs compiled before go on working:
 *
 *		pgpacer_book_options opt = PGPACER_BOOK_OPTIONS_INIT;
 *
 *		opt.max_wait_us = 2000000;
 */
#ifndef PGPACER_H
#define PGPACER_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define PGPACER_API __attribute__((visibility("default")))
#else
#define PGPACER_API
#endif

#ifdef __cplusplus
extern "C"
{
#endif

/* "No limit" wherever a time limit is asked for; a wait of this length never ends. */
#define PGPACER_NO_LIMIT	INT64_MAX

typedef enum pgpacer_code
{
	PGPACER_OK = 0,
	PGPACER_WAIT = 1,			/* pgpacer_confirm only: not yet; wait and confirm again */

	/* given up on the caller's side */
	PGPACER_CANCELLED = 2,		/* the cancel token was fired */
	PGPACER_DEADLINE = 3,		/* the cancel token's deadline passed */

	/* refused by the source; nothing was booked */
	PGPACER_FULL = 4,			/* as many callers wait as the source allows (PC001) */
	PGPACER_TOO_LATE = 5,		/* no slot within max_wait (PC002) */
	PGPACER_GONE = 6,			/* the booking was released (PC003) */

	/* nothing was done */
	PGPACER_NO_SOURCE = 7,		/* no such source (42704) */
	PGPACER_EXISTS = 8,			/* the source exists already (42710) */
	PGPACER_INVALID = 9,		/* bad argument, bad connection string */
	PGPACER_UNREACHABLE = 10,	/* no connection to the database */
	PGPACER_DENIED = 12,		/* authentication or rights */
	PGPACER_READ_ONLY = 13,		/* the server is a standby or read-only (25006) */
	PGPACER_NOT_INSTALLED = 14, /* pg_pacer is not in this database, or too old */
	PGPACER_BUSY = 16,			/* another thread is using the handle */
	PGPACER_FORKED = 17,		/* the handle belongs to another process */
	PGPACER_NO_MEMORY = 18,
	PGPACER_SYSTEM = 19,		/* a system call failed, see errmsg */

	/*
	 * The connection broke, or the answer did not come in time, and the second
	 * attempt failed too: the call may or may not have taken effect.  A slot
	 * booked by it passes unused, unless the call is repeated with the same key.
	 */
	PGPACER_UNKNOWN = 11,

	PGPACER_SERVER = 15			/* any other error of the server, see sqlstate */
} pgpacer_code;

typedef struct pgpacer pgpacer;
typedef struct pgpacer_cancel pgpacer_cancel;

/* ------------------------------------------------------------------
 * Handle
 * ------------------------------------------------------------------ */

typedef struct pgpacer_options
{
	size_t		size;			/* sizeof(pgpacer_options) */

	/*
	 * Longest time to connect to one host.  0: connect_timeout of the connection
	 * string or PGCONNECT_TIMEOUT, else 10 s.  Hosts in a list are tried in turn.
	 */
	int64_t		connect_timeout_us;

	/* Longest wait for the answer to one statement; default 10 s. */
	int64_t		network_timeout_us;

	/*
	 * Waits longer than this are spent without a connection; default 1 s.  0: never
	 * wait connected.  PGPACER_NO_LIMIT: always keep it.
	 */
	int64_t		keep_connection_us;

	/*
	 * When the database cannot be reached (refused, starting up, shutting down, a
	 * standby): 0, the default, gives up at once; otherwise keep trying this long.
	 * "Too many connections" is tried again for up to connect_timeout in any case.
	 * Neither outlasts a booking's max_wait.
	 */
	int64_t		database_wait_us;

	/*
	 * How long a call may go on after its token has fired, to cancel its statement
	 * on the server and give its slot back; default 2 s.
	 */
	int64_t		grace_us;

	/* Shown by the server where the connection string names none; NULL: "pgpacer". */
	const char *application_name;

	/*
	 * What to do when the database is away (PGPACER_UNREACHABLE or PGPACER_READ_ONLY
	 * after database_wait_us).  0, the default: start nothing.  Otherwise start all the
	 * same, this far apart on this handle: the source's interval divided by the share
	 * that this handle may take, which with n callers is 1/n.  pgpacer_booking.paced_by
	 * tells which it was.  Nobody else knows of such starts, and they know of nobody.
	 */
	int64_t		away_interval_us;
} pgpacer_options;

#define PGPACER_OPTIONS_INIT \
	{ sizeof(pgpacer_options), 0, 10000000, 1000000, 0, 2000000, NULL, 0 }

/*
 * Makes a handle.  Does not connect: the first call that needs the database does,
 * and every call re-opens a connection that was lost.
 *
 * conninfo: a libpq connection string ("host=db dbname=app" or a postgresql:// URI),
 * or a database's name; NULL or "": the environment (PGHOST, PGDATABASE, ...).
 *
 * Returns PGPACER_OK; PGPACER_INVALID (the string does not parse), PGPACER_NO_MEMORY.
 * *h is set in any case and to be closed; it is NULL only after PGPACER_NO_MEMORY.
 * Never blocks.
 */
PGPACER_API extern int pgpacer_open(pgpacer **h, const char *conninfo, const pgpacer_options *options);

/*
 * Frees a handle and closes its connection; NULL is ignored.  Bookings keep their
 * slots.  In a process that inherited the handle through fork() it frees the copy
 * and tells the server nothing.
 *
 * Returns PGPACER_OK, or PGPACER_BUSY (a call is running on it; nothing is freed).
 * Never blocks.
 */
PGPACER_API extern int pgpacer_close(pgpacer *h);

/*
 * The message of the last call on h, without a line feed at its end; "" after
 * success.  Valid until the next call on h; not after PGPACER_BUSY, when it is
 * another thread's: use pgpacer_strerror().  h = NULL: out of memory.
 */
PGPACER_API extern const char *pgpacer_errmsg(const pgpacer *h);

/* The SQLSTATE the server gave in the last call on h, or "". */
PGPACER_API extern const char *pgpacer_sqlstate(const pgpacer *h);

/* A fixed English text for a code; never NULL. */
PGPACER_API extern const char *pgpacer_strerror(int code);

/* The library's version, as "0.1.0". */
PGPACER_API extern const char *pgpacer_version(void);

/* ------------------------------------------------------------------
 * Cancel tokens
 *
 * One token may serve any number of calls and threads; once fired it stays fired
 * and every call given it ends:
 *
 *	- before a statement was sent: nothing is sent;
 *	- during a statement: it is cancelled on the server, and what it booked all the
 *	  same is released;
 *	- during a wait: the slot is released;
 *	- after that: nothing.  The permit is spent.
 *
 * A token inherited through fork() is shared: fired in one process (reason and all),
 * it is fired in the others (with reason 1).  Deadlines are not shared.
 * ------------------------------------------------------------------ */

/* The reason of a token whose deadline passed. */
#define PGPACER_REASON_DEADLINE	(-1)

/* Makes a token; NULL: no memory or no descriptors (see errno).  Free after use. */
PGPACER_API extern pgpacer_cancel *pgpacer_cancel_new(void);

/*
 * Makes a token that fires when its parent does, for the parent's reason, and may fire
 * by itself, which the parent does not notice: such as a deadline for one of several
 * steps.  The parent must not be freed before it; NULL: as pgpacer_cancel_new().
 * A child's descriptor needs epoll: elsewhere than on Linux NULL, errno ENOTSUP.
 */
PGPACER_API extern pgpacer_cancel *pgpacer_cancel_child(pgpacer_cancel *parent);

/*
 * Fires a token.  reason: a positive number of yours, such as a signal's (0 counts
 * as 1); the first firing sets it.  Async-signal-safe, thread-safe, never blocks,
 * keeps errno; NULL is ignored.
 */
PGPACER_API extern void pgpacer_cancel_fire(pgpacer_cancel *c, int reason);

/*
 * Lets a token fire by itself, in_us from now; PGPACER_NO_LIMIT takes the deadline
 * away.  The deadline is noticed by the calls given the token and by
 * pgpacer_cancel_reason(); pgpacer_book asks for no slot beyond it.
 */
PGPACER_API extern void pgpacer_cancel_deadline(pgpacer_cancel *c, int64_t in_us);

/* 0: not fired; else the reason, PGPACER_REASON_DEADLINE for a deadline.  Async-signal-safe. */
PGPACER_API extern int pgpacer_cancel_reason(pgpacer_cancel *c);

/*
 * A descriptor that is readable once the token has fired: for an event loop.  Poll
 * it, do not read or close it.
 */
PGPACER_API extern int pgpacer_cancel_fd(const pgpacer_cancel *c);

/* Frees a token no call is using any more; NULL is ignored. */
PGPACER_API extern void pgpacer_cancel_free(pgpacer_cancel *c);

/* ------------------------------------------------------------------
 * Booking, waiting, starting
 * ------------------------------------------------------------------ */

typedef enum pgpacer_state
{
	PGPACER_STATE_NONE = 0,		/* nothing booked */
	PGPACER_STATE_HELD = 1,		/* booked, not started */
	PGPACER_STATE_STARTED = 2,	/* the start is recorded */
	PGPACER_STATE_RELEASED = 3, /* given back */
	PGPACER_STATE_PASSED = 4,	/* its time came without a confirmed start */
	PGPACER_STATE_FORGOTTEN = 5 /* the server does not remember it (any more) */
} pgpacer_state;

typedef enum pgpacer_pacer
{
	PGPACER_BY_SOURCE = 0,		/* the database */
	PGPACER_BY_HANDLE = 1		/* the database was away: away_interval_us of the handle's options */
} pgpacer_pacer;

/* Plain data.  due_us has a meaning on this machine only, until it is rebooted. */
typedef struct pgpacer_booking
{
	char		source[256];
	char		key[40];		/* the key made for it; "" if you gave one */
	int64_t		ticket;			/* 0: none */
	int64_t		slot_at_us;		/* since 1970-01-01 00:00 UTC by the server's clock: to be shown */
	int64_t		wait_us;		/* the wait as the server answered it */
	int64_t		due_us;			/* its end on this machine's monotonic clock */
	int32_t		permits;
	int32_t		state;			/* pgpacer_state, as far as this process knows */
	int32_t		paced_by;		/* pgpacer_pacer */
	int32_t		spare32;
	int64_t		spare[7];
} pgpacer_booking;

typedef struct pgpacer_book_options
{
	size_t		size;			/* sizeof(pgpacer_book_options) */

	/* How many intervals the start takes; at least 1, the default. */
	int			permits;

	/*
	 * Longest wait to accept; 0: only an immediate start.  PGPACER_NO_LIMIT, the
	 * default: what the source allows.  A late confirm may add to it; for a hard
	 * end give a token with a deadline.
	 */
	int64_t		max_wait_us;

	/*
	 * Names the work: while a booking of this key is held, booking again finds it
	 * instead of taking another slot.  NULL: a random key, which makes a second
	 * attempt after a lost answer find the first one's slot.
	 */
	const char *key;

	pgpacer_cancel *cancel;		/* may be NULL */

	/*
	 * pgpacer_start, _acquire, _run: 1: confirm each start with the server, which
	 * keeps starts apart even when a caller wakes late; -1: do not, which saves a
	 * round trip for those that waited; 0, the default: as 1.
	 */
	int			confirm;
} pgpacer_book_options;

#define PGPACER_BOOK_OPTIONS_INIT \
	{ sizeof(pgpacer_book_options), 1, PGPACER_NO_LIMIT, NULL, NULL, 0 }

/*
 * Books the earliest slot of a source.  The booking is durable when this returns
 * and stays whatever becomes of this process; a slot not used passes.
 *
 * *booking is filled: state PGPACER_STATE_STARTED with wait_us = 0 means start now,
 * the start is recorded; PGPACER_STATE_HELD: pgpacer_wait() for it.
 *
 * Returns PGPACER_OK, or
 *	PGPACER_FULL, PGPACER_TOO_LATE: refused, errmsg names the earliest slot (the latter also
 *		if it lies beyond the token's deadline);
 *	PGPACER_CANCELLED, PGPACER_DEADLINE: booking->state tells whether a slot is still
 *		held because it could not be released in time (it then passes by itself);
 *	PGPACER_UNKNOWN: asked twice without an answer.  To go on, book again with
 *		booking->key, or your own, as options.key;
 *	PGPACER_NO_SOURCE, _INVALID, _UNREACHABLE, _DENIED, _READ_ONLY, _NOT_INSTALLED, _SERVER,
 *	_BUSY, _FORKED, _NO_MEMORY, _SYSTEM: no slot.
 *
 * Blocks for the network only, at most twice (connecting + network_timeout +
 * grace), plus database_wait.
 */
PGPACER_API extern int pgpacer_book(pgpacer *h, const char *source, const pgpacer_book_options *options,
									pgpacer_booking *booking);

/*
 * Waits until the booking's slot: never shorter, whatever signals arrive, and with
 * one wake-up (one in ten minutes of a long wait).  Nothing is sent meanwhile, and
 * a wait longer than keep_connection gives the connection up first.
 *
 * cancel may be NULL.  If it fires, the slot is released, for which grace is
 * allowed; booking->state tells how that ended.
 *
 * Returns PGPACER_OK (start now), PGPACER_CANCELLED, PGPACER_DEADLINE, PGPACER_INVALID
 * (nothing booked, or released), PGPACER_BUSY, PGPACER_FORKED, PGPACER_SYSTEM.
 * Blocks for the wait; bounded by it and by cancel.
 */
PGPACER_API extern int pgpacer_wait(pgpacer *h, pgpacer_booking *booking, pgpacer_cancel *cancel);

/*
 * Tells the server that the work starts now.  Whoever woke late may have to wait
 * again, so that starts stay an interval apart.  A booking that started at once
 * needs no confirmation and is answered PGPACER_OK without asking the server.
 *
 * Returns PGPACER_OK (start now, the start is recorded); PGPACER_WAIT (pgpacer_wait
 * for booking again, then confirm again; twice is enough unless the source is
 * paused); PGPACER_GONE (released meanwhile: do not start); PGPACER_UNKNOWN (do not
 * start; confirming again is safe); the codes of pgpacer_book.
 * Blocks for the network only, bounded as pgpacer_book.
 */
PGPACER_API extern int pgpacer_confirm(pgpacer *h, pgpacer_booking *booking, pgpacer_cancel *cancel);

/*
 * Gives a slot back before its time.  Idempotent.  The slot goes to a later caller;
 * nobody's slot moves.
 *
 * Returns PGPACER_OK if the server answered; booking->state is then
 * PGPACER_STATE_RELEASED (given back by this call), _STARTED (too late, it was
 * started), _PASSED (too late, its time is over) or _FORGOTTEN (released before, or
 * no longer remembered).  Only the first gave anything back.
 * Otherwise the codes of pgpacer_book; the slot passes by itself.
 * Blocks for the network only, bounded as pgpacer_book.
 */
PGPACER_API extern int pgpacer_release(pgpacer *h, pgpacer_booking *booking);

/*
 * Fills *booking for a ticket that came from elsewhere, to release or confirm it
 * here; slot_at_us = 0: not known.  PGPACER_INVALID if the source's name is empty or
 * longer than 255 bytes, or the ticket is not positive.
 */
PGPACER_API extern int pgpacer_booking_init(pgpacer_booking *booking, const char *source, int64_t ticket,
											int64_t slot_at_us);

/*
 * From a booking to the start: waits and, unless options say otherwise, confirms and
 * waits until the server agrees.  Uses confirm and cancel of options.  On any code but
 * PGPACER_OK do not start; a held slot is released where that can still be done.
 * Returns and blocks as pgpacer_wait and pgpacer_confirm do.
 */
PGPACER_API extern int pgpacer_start(pgpacer *h, pgpacer_booking *booking, const pgpacer_book_options *options);

/* pgpacer_book, then pgpacer_start; booking may be NULL.  PGPACER_OK: start now. */
PGPACER_API extern int pgpacer_acquire(pgpacer *h, const char *source, const pgpacer_book_options *options,
									   pgpacer_booking *booking);

/* ------------------------------------------------------------------
 * The same for event loops
 *
 *		rc = pgpacer_begin(&step, h, "mail", &options);
 *		while (rc == PGPACER_OK && (rc = pgpacer_step_on(step)) == PGPACER_WAIT)
 *			... poll pgpacer_step_fd(step) for pgpacer_step_events(step), at most
 *			... pgpacer_step_timeout_us(step), beside everything else
 *		booking = *pgpacer_step_booking(step);
 *		pgpacer_step_end(step);
 *
 * What talks to the database, or looks up its name, runs in a thread of ours while it
 * lasts; waiting for the slot takes neither thread nor connection.  Until
 * pgpacer_step_end() the handle is the step's: other calls on it may be answered PGPACER_BUSY.
 * One step is for one thread at a time.
 * ------------------------------------------------------------------ */

typedef struct pgpacer_step pgpacer_step;

/*
 * Begins what pgpacer_acquire() does.  source, options and key are copied; the token
 * of options must live until pgpacer_step_end(), and ends the step as it ends the call.
 *
 * Returns PGPACER_OK; PGPACER_INVALID, PGPACER_NO_MEMORY, PGPACER_SYSTEM; *step is then NULL.
 * Never blocks.
 */
PGPACER_API extern int pgpacer_begin(pgpacer_step **step, pgpacer *h, const char *source,
									 const pgpacer_book_options *options);

/*
 * Goes on as far as that is possible at once.  PGPACER_WAIT: not done, poll and call
 * again (which may be done at any time).  Otherwise as pgpacer_acquire(): PGPACER_OK, start
 * now; the same again when called again.  Never blocks.
 */
PGPACER_API extern int pgpacer_step_on(pgpacer_step *step);

/* What to poll, after each pgpacer_step_on(): -1: no descriptor, the timeout alone. */
PGPACER_API extern int pgpacer_step_fd(const pgpacer_step *step);
PGPACER_API extern short pgpacer_step_events(const pgpacer_step *step);

/* How long at most; 0 if it is done; PGPACER_NO_LIMIT: only the descriptor counts. */
PGPACER_API extern int64_t pgpacer_step_timeout_us(const pgpacer_step *step);

/* The booking, as far as it has come; the step's own. */
PGPACER_API extern const pgpacer_booking *pgpacer_step_booking(const pgpacer_step *step);

/*
 * Frees a step; NULL is ignored.  One that is not done is cancelled: a slot that it
 * holds is given back.  Then it blocks for that, within grace_us; otherwise not.
 */
PGPACER_API extern void pgpacer_step_end(pgpacer_step *step);

/* ------------------------------------------------------------------
 * In one call
 * ------------------------------------------------------------------ */

/*
 * Acquires, then calls work(booking, arg) in this thread.  The handle is free while
 * work runs, so work may use it.
 *
 * PGPACER_OK if and only if work was called, exactly once; otherwise the codes of
 * pgpacer_acquire, and work was not called.  What work has to report goes through
 * arg.
 */
typedef void (*pgpacer_work) (const pgpacer_booking *booking, void *arg);

PGPACER_API extern int pgpacer_run(pgpacer *h, const char *source, const pgpacer_book_options *options,
								   pgpacer_work work, void *arg);

/* ------------------------------------------------------------------
 * Sources
 * ------------------------------------------------------------------ */

typedef struct pgpacer_source_options
{
	size_t		size;			/* sizeof(pgpacer_source_options) */
	int64_t		interval_us;	/* least time between two starts; must be set, > 0 */
	int			burst;			/* starts that may come at once after idling; default 1 */
	int			max_waiting;	/* callers that may wait; default 100, -1: no bound */
	int64_t		max_wait_us;	/* longest wait given; default PGPACER_NO_LIMIT */
	int			quota;			/* most starts in a window; 0, the default: no quota */
	int64_t		quota_window_us;	/* length of a window; with quota, or 0 */
	int64_t		quota_origin_us;	/* a window begins here, since 1970-01-01 UTC */
	int			remembered;		/* bookings remembered, 4 to 200; default 32 */
	int			if_not_exists;	/* 1: PGPACER_OK also if the source exists, which stays as it is */
} pgpacer_source_options;

#define PGPACER_SOURCE_OPTIONS_INIT \
	{ sizeof(pgpacer_source_options), 0, 1, 100, PGPACER_NO_LIMIT, 0, 0, 0, 32, 0 }

/*
 * Makes a source.  The role needs the rights of pg_pacer's owner.  Safe to race with
 * if_not_exists.
 *
 * Returns PGPACER_OK, PGPACER_EXISTS, PGPACER_INVALID, PGPACER_DENIED, PGPACER_UNKNOWN (it may
 * have been made), the other codes of pgpacer_book.
 * Blocks for the network only, bounded as pgpacer_book.
 */
PGPACER_API extern int pgpacer_create_source(pgpacer *h, const char *name, const pgpacer_source_options *options);

#ifdef __cplusplus
}
#endif

#endif							/* PGPACER_H */
