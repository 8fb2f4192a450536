/*
 * pgpacer_local.h - libpgpacer without a database: waiting, many workers, deadlines,
 * a pacer for one process, trying again
 *
 * What a program needs around its calls when it is the only one that makes them.  The
 * pacer keeps its schedule by the same arithmetic as the server; when a second process
 * comes along, a source and pgpacer_acquire() take its place.
 *
 *		#include <pgpacer_local.h>
 *		#include <stdio.h>
 *
 *		static int
 *		call_the_api(pgpacer_cancel *cancel, void *arg)
 *		{
 *			...
 *		}
 *
 *		int
 *		main(void)
 *		{
 *			pgpacer_local_options o = PGPACER_LOCAL_OPTIONS_INIT;
 *			pgpacer_local *pacer;
 *			int			result;
 *			int			rc;
 *
 *			o.per_second = 5;
 *			rc = pgpacer_local_new(&pacer, &o);
 *			if (rc == PGPACER_OK)
 *				rc = pgpacer_local_run(pacer, NULL, call_the_api, NULL, &result);
 *			if (rc != PGPACER_OK)
 *				fprintf(stderr, "not called: %s\n", pgpacer_strerror(rc));
 *			pgpacer_local_free(pacer);
 *			return rc != PGPACER_OK || result != 0;
 *		}
 *
 * OWNERSHIP, ERRORS, MANNERS, TIME and OPTIONS are as in pgpacer.h, whose codes and
 * cancel tokens these functions use.  Times are whole microseconds.
 *
 * TASKS.  What these functions call returns an int of its own, 0 meaning success.  It
 * is never mixed with the codes: the return value says what became of the call,
 * *result what the task said.  result may be NULL.  A task given a token looks at it,
 * or hands it on (to pgpacer_sleep, pgpacer_acquire, ..., which then cancel their
 * statement on the server too).  Nothing ends a task by force.
 *
 * THREADS.  Every function may be called from any thread at any time, on the same
 * pacer too.  Threads made here have all signals blocked, so that the program's
 * handlers run where they did before, and are gone when the function returns.
 */
#ifndef PGPACER_LOCAL_H
#define PGPACER_LOCAL_H

#include <pgpacer.h>

#ifdef __cplusplus
extern "C"
{
#endif

typedef int (*pgpacer_task) (pgpacer_cancel *cancel, void *arg);

/* ------------------------------------------------------------------
 * Waiting
 * ------------------------------------------------------------------ */

/*
 * Sleeps for us microseconds: never shorter, whatever signals arrive, and however long.
 * 0 or less: does not sleep.  PGPACER_NO_LIMIT: until the token fires.  cancel may be
 * NULL; one that has fired already wins.
 *
 * Returns PGPACER_OK (the time is over), PGPACER_CANCELLED, PGPACER_DEADLINE,
 * PGPACER_SYSTEM (could not poll).  Blocks for us; bounded by it and by cancel.
 */
PGPACER_API extern int pgpacer_sleep(int64_t us, pgpacer_cancel *cancel);

/*
 * Runs task(token, arg) in this thread with a token that fires in_us from now, or when
 * parent (may be NULL) does, with its reason.  The token really fires: its descriptor
 * becomes readable, for an event loop within the task as well.
 *
 * in_us <= 0: the token has fired when the task begins.  PGPACER_NO_LIMIT: only parent.
 *
 * error, if not NULL, is filled on every code but PGPACER_OK and says which task was
 * stopped and where the call was made.
 *
 * Returns PGPACER_OK (the task ended while its token had not fired), PGPACER_DEADLINE,
 * PGPACER_CANCELLED (it ended after its token had fired; *result is what it returned
 * all the same); PGPACER_INVALID, PGPACER_NO_MEMORY, PGPACER_SYSTEM (task was not called).
 * Blocks until the task returns: the deadline asks, the task complies.
 */
#define pgpacer_with_deadline(in_us, parent, task, arg, result, error) \
	pgpacer_with_deadline_at(in_us, parent, task, arg, result, error, #task, __FILE__, __LINE__, __func__)

/* Strings but message are those given to the call. */
typedef struct pgpacer_error
{
	int			code;
	const char *task;
	const char *file;
	int			line;
	const char *function;
	int64_t		limit_us;		/* the time given */
	int64_t		took_us;		/* the time taken */
	char		message[256];	/* all of this in a sentence */
} pgpacer_error;

PGPACER_API extern int pgpacer_with_deadline_at(int64_t in_us, pgpacer_cancel *parent, pgpacer_task task, void *arg,
												int *result, pgpacer_error *error, const char *name,
												const char *file, int line, const char *function);

/* ------------------------------------------------------------------
 * Many items, few workers
 * ------------------------------------------------------------------ */

typedef struct pgpacer_item
{
	size_t		index;			/* 0 .. n - 1 */
	int			worker;			/* 0 .. workers - 1: which of your handles is free for it */
	pgpacer_cancel *cancel;		/* fires when the others are to stop */
} pgpacer_item;

typedef enum pgpacer_item_status
{
	PGPACER_ITEM_CANCELLED = 0, /* not called: the map ended before its turn */
	PGPACER_ITEM_DONE = 1,		/* called, returned 0 */
	PGPACER_ITEM_FAILED = 2,	/* called, returned something else */
	PGPACER_ITEM_STOPPED = 3	/* that, and it was the one that stopped the others */
} pgpacer_item_status;

typedef struct pgpacer_settled
{
	int			status;			/* pgpacer_item_status */
	int			result;			/* what work returned; 0 if it was not called */
} pgpacer_settled;

/* Called once per item, in any of the threads, on several items at a time. */
typedef int (*pgpacer_map_work) (const pgpacer_item *item, void *arg);

/*
 * Called for an item that failed, one call at a time: nonzero stops the map.  Not
 * called any more once it has.
 */
typedef int (*pgpacer_map_stop) (const pgpacer_item *item, int result, void *arg);

typedef struct pgpacer_map_options
{
	size_t		size;			/* sizeof(pgpacer_map_options) */

	/*
	 * Most items at work at one time, at least 1; default 4.  This thread is one of the
	 * workers; where the system gives no more threads there are fewer.
	 */
	int			workers;

	pgpacer_map_stop stop;		/* NULL, the default: no error stops the others */
	pgpacer_cancel *cancel;		/* may be NULL */
} pgpacer_map_options;

#define PGPACER_MAP_OPTIONS_INIT \
	{ sizeof(pgpacer_map_options), 4, NULL, NULL }

/*
 * Calls work for the items 0 .. n - 1, taken in that order, each by the next free
 * worker.  Every item is settled: settled[i], if settled is not NULL, tells what became
 * of item i.  When options.cancel fires or options.stop says so, no further item
 * is taken and the token of those at work fires; they are waited for, and settled by
 * what they return.
 *
 * Returns PGPACER_OK (work was called for every item, whatever it returned);
 * PGPACER_CANCELLED (stopped, or cancelled), PGPACER_DEADLINE; PGPACER_INVALID, PGPACER_NO_MEMORY,
 * PGPACER_SYSTEM (nothing was called).  A token that fires too late to keep an item from
 * being called changes nothing.
 * Blocks until the last item that was begun has ended.
 */
PGPACER_API extern int pgpacer_map(size_t n, const pgpacer_map_options *options, pgpacer_map_work work, void *arg,
								   pgpacer_settled *settled);

/* ------------------------------------------------------------------
 * A pacer for the threads of one process
 *
 * Callers start in the order in which they came, an interval apart.  A caller that
 * gives up spends nothing: those behind it move up.  One that wakes late moves those
 * behind it back by as much, so that lateness is never followed by a burst.
 * ------------------------------------------------------------------ */

typedef struct pgpacer_local pgpacer_local;

typedef struct pgpacer_local_options
{
	size_t		size;			/* sizeof(pgpacer_local_options) */

	/* One of the two must be set: the least time between two starts ... */
	int64_t		interval_us;

	/*
	 * ... or the most starts per second, of which the interval is computed, rounded up:
	 * the rate is never exceeded.  At most 1,000,000 starts per second are given.
	 */
	double		per_second;

	int			burst;			/* starts that may come at once after idling; default 1 */
	int			max_waiting;	/* callers that may wait; default 100, -1: no bound */
	int64_t		max_wait_us;	/* longest wait accepted; default PGPACER_NO_LIMIT */
} pgpacer_local_options;

#define PGPACER_LOCAL_OPTIONS_INIT \
	{ sizeof(pgpacer_local_options), 0, 0, 1, 100, PGPACER_NO_LIMIT }

/*
 * Makes a pacer.  It belongs to this process: a child made by fork() may only free it,
 * other calls there are answered PGPACER_FORKED.
 *
 * Returns PGPACER_OK; PGPACER_INVALID (neither or both of interval_us and per_second, a
 * value out of range), PGPACER_NO_MEMORY; *pacer is then NULL.  Never blocks.
 */
PGPACER_API extern int pgpacer_local_new(pgpacer_local **pacer, const pgpacer_local_options *options);

/* Frees a pacer that no call is using any more; NULL is ignored. */
PGPACER_API extern void pgpacer_local_free(pgpacer_local *pacer);

/*
 * Waits for this caller's turn.  Of options permits (n intervals), max_wait_us and
 * cancel count; key must be NULL.
 *
 * Returns PGPACER_OK: start now, the start is recorded.  Otherwise do not start, and
 * nothing was spent:
 *	PGPACER_FULL, PGPACER_TOO_LATE: refused at once: as many wait as may, or the turn would
 *		come after max_wait or the token's deadline (a later pause may still prolong a
 *		wait that was accepted);
 *	PGPACER_CANCELLED, PGPACER_DEADLINE: the token fired before the turn came;
 *	PGPACER_INVALID, PGPACER_FORKED, PGPACER_NO_MEMORY, PGPACER_SYSTEM.
 * Blocks for the wait; bounded by it and by cancel.
 */
PGPACER_API extern int pgpacer_local_acquire(pgpacer_local *pacer, const pgpacer_book_options *options);

/*
 * pgpacer_local_acquire, then task(options.cancel, arg) in this thread.
 *
 * PGPACER_OK if and only if task was called, exactly once; *result is what it returned.
 * Otherwise the codes of pgpacer_local_acquire, and *result is left alone.
 */
PGPACER_API extern int pgpacer_local_run(pgpacer_local *pacer, const pgpacer_book_options *options, pgpacer_task task,
										 void *arg, int *result);

/*
 * Nobody starts within us from now; PGPACER_NO_LIMIT: until pgpacer_local_resume().  A
 * pause only ever extends one that is there.  Those who wait keep their order.
 * Returns PGPACER_OK, PGPACER_INVALID, PGPACER_FORKED.  Never blocks.
 */
PGPACER_API extern int pgpacer_local_pause(pgpacer_local *pacer, int64_t us);

/* Ends a pause.  Returns and blocks as pgpacer_local_pause. */
PGPACER_API extern int pgpacer_local_resume(pgpacer_local *pacer);

/* How many callers wait for their turn; -1: NULL, or the pacer of another process. */
PGPACER_API extern int pgpacer_local_waiting(pgpacer_local *pacer);

/* ------------------------------------------------------------------
 * Trying again
 * ------------------------------------------------------------------ */

typedef struct pgpacer_attempt
{
	int			number;			/* 1 for the first */
	pgpacer_cancel *cancel;		/* options.cancel */

	/*
	 * To be set by the work: the upstream asked for that much quiet ("Retry-After").
	 * Then everybody who uses the pacer or the source is held up, also if this was
	 * the last attempt or a successful one.  0, as it comes, or below: it did not.
	 */
	int64_t		retry_after_us;

	int64_t		spare[4];
} pgpacer_attempt;

/* Returns 0 for success. */
typedef int (*pgpacer_retry_work) (pgpacer_attempt *attempt, void *arg);

/* Nonzero: this failure is worth another attempt. */
typedef int (*pgpacer_retry_if) (const pgpacer_attempt *attempt, int result, void *arg);

typedef struct pgpacer_retry_options
{
	size_t		size;			/* sizeof(pgpacer_retry_options) */
	int			attempts;		/* most attempts, at least 1; default 5 */
	pgpacer_retry_if retry_if;	/* NULL, the default: every failure is */

	/*
	 * Between two attempts there are backoff_us (default 100 ms), doubled each time up
	 * to backoff_max_us (default 30 s), of which a random half is left out, so that
	 * those who failed together do not come back together.  After a retry_after_us that
	 * time takes its place.
	 */
	int64_t		backoff_us;
	int64_t		backoff_max_us;

	/*
	 * Each attempt, the first too, begins with a slot of its own, at the tail: of a
	 * local pacer, or of a source by means of a handle.  All NULL: it does not wait.
	 */
	pgpacer_local *local;
	pgpacer    *handle;
	const char *source;
	const pgpacer_book_options *book;	/* its key must be NULL, its cancel is ignored */

	/*
	 * 0, the default: a refused slot (PGPACER_FULL, PGPACER_TOO_LATE) ends it all; whoever
	 * insists makes a full queue no shorter.  1: counts as a failed attempt.
	 */
	int			retry_refused;

	pgpacer_cancel *cancel;		/* may be NULL */
} pgpacer_retry_options;

#define PGPACER_RETRY_OPTIONS_INIT \
	{ sizeof(pgpacer_retry_options), 5, NULL, 100000, 30000000, NULL, NULL, NULL, NULL, 0, NULL }

/*
 * Calls work until it succeeds, is not worth another attempt, or has had as many as
 * it may.
 *
 * *result: what the last call of work returned.  *called: how often it was called.
 * Both may be NULL; *result is left alone if work was not called.
 *
 * Returns PGPACER_OK (work had its last word, see *result: 0 is success); otherwise it
 * was given up before an attempt: PGPACER_CANCELLED, PGPACER_DEADLINE; the codes of
 * pgpacer_local_acquire or pgpacer_acquire (ask the handle for the message), of which
 * those after a retry_after_us may also mean that the source could not be paused;
 * PGPACER_INVALID.
 * Blocks for waits, bounded by cancel, for the work, and for the network as
 * pgpacer_acquire.
 */
PGPACER_API extern int pgpacer_retry(const pgpacer_retry_options *options, pgpacer_retry_work work, void *arg,
									 int *result, int *called);

#ifdef __cplusplus
}
#endif

#endif							/* PGPACER_LOCAL_H */
