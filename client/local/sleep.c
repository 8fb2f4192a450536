/*
 * sleep.c - waiting, and working against a deadline
 */
#include <inttypes.h>
#include <stdio.h>

#include "local.h"

int
pgpacer_sleep(int64_t us, pgpacer_cancel *cancel)
{
	/* the clock is cut off below the microsecond: one more, so as not to be early by a part */
	int64_t		until = us > 0 ? later_us(later_us(clock_us(), us), 1) : 0;

	switch (wait_for(-1, 0, cancel, until))
	{
		case WOKEN_READY:
		case WOKEN_TIMEOUT:
			return PGPACER_OK;
		case WOKEN_CANCELLED:
			return code_of_token(cancel);
		case WOKEN_FAILED:
			break;
	}
	return PGPACER_SYSTEM;
}

/* Everything but the place of the call, which is filled in already. */
static void
describe(pgpacer_error *e, int code, int64_t limit_us, int64_t took_us)
{
	char		limit[48] = "";
	const char *what = code == PGPACER_DEADLINE ? "passed its deadline" :
		code == PGPACER_CANCELLED ? "was cancelled" : pgpacer_strerror(code);

	e->code = code;
	e->limit_us = limit_us;
	e->took_us = took_us;
	if (code == PGPACER_DEADLINE && limit_us != PGPACER_NO_LIMIT)
		snprintf(limit, sizeof limit, " of %" PRId64 " ms", limit_us / 1000);
	snprintf(e->message, sizeof e->message, "%s %s%s and returned after %" PRId64 " ms (called in %s, %s:%d)",
			 e->task, what, limit, took_us / 1000, e->function, e->file, e->line);
	if (code != PGPACER_DEADLINE && code != PGPACER_CANCELLED)
		snprintf(e->message, sizeof e->message, "%s was not called: %s (in %s, %s:%d)",
				 e->task, what, e->function, e->file, e->line);
}

/*
 * Whether the task was in time is judged by its token right after it, before the watch
 * is ended: it and the task see the same.
 */
static int
run_watched(int64_t in_us, pgpacer_cancel *parent, pgpacer_task task, void *arg, int *result, int64_t *took_us)
{
	int64_t		start = clock_us();
	Watch		watch;
	int			returned;
	int			rc;

	if (!task)
		return PGPACER_INVALID;
	rc = watch_begin(&watch, parent, later_us(start, in_us));
	if (rc != PGPACER_OK)
		return rc;
	returned = task(watch.child, arg);
	rc = code_of_token(watch.child);
	*took_us = clock_us() - start;
	watch_end(&watch);
	if (result)
		*result = returned;
	return rc;
}

int
pgpacer_with_deadline_at(int64_t in_us, pgpacer_cancel *parent, pgpacer_task task, void *arg, int *result,
						 pgpacer_error *error, const char *name, const char *file, int line, const char *function)
{
	int64_t		took = 0;
	int			rc = run_watched(in_us, parent, task, arg, result, &took);

	if (rc != PGPACER_OK && error)
	{
		*error = (pgpacer_error) {
			.task = name ? name : "the task",.file = file ? file : "?",.line = line,.function = function ? function : "?"
		};
		describe(error, rc, in_us, took);
	}
	return rc;
}
