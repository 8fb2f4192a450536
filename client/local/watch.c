/*
 * watch.c - a token that follows another one and a deadline
 *
 * A thread sleeps until the parent fires or the time has come, and then fires the
 * child.  So the child's descriptor becomes readable for whoever polls it by himself,
 * which a deadline that is only looked at does not do.
 * Guarantees: the thread is gone, and the parent no longer used, after watch_end().
 */
#include <poll.h>
#include <signal.h>

#include "local.h"

/*
 * Starts a thread with all signals blocked: a program's handlers run in its own
 * threads.  Returns 0 or an errno.
 */
int
thread_begin(pthread_t *thread, void *(*body) (void *), void *arg)
{
	sigset_t	all;
	sigset_t	before;
	int			error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(thread, NULL, body, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

/* PGPACER_OK: it has not fired. */
int
code_of_token(pgpacer_cancel *c)
{
	int			reason = pgpacer_cancel_reason(c);

	if (reason == 0)
		return PGPACER_OK;
	return reason == PGPACER_REASON_DEADLINE ? PGPACER_DEADLINE : PGPACER_CANCELLED;
}

static void *
watch(void *arg)
{
	Watch	   *w = arg;

	switch (wait_for(pgpacer_cancel_fd(w->done), POLLIN, w->parent, w->until_us))
	{
		case WOKEN_READY:
			break;
		case WOKEN_TIMEOUT:
			pgpacer_cancel_fire(w->child, PGPACER_REASON_DEADLINE);
			break;
		case WOKEN_CANCELLED:
			pgpacer_cancel_fire(w->child, pgpacer_cancel_reason(w->parent));
			break;
		case WOKEN_FAILED:
			/* we cannot watch any more: rather stop the work than let it go on */
			pgpacer_cancel_fire(w->child, 1);
			break;
	}
	return NULL;
}

/*
 * Makes w->child.  What has fired already is passed on here, and what never will needs
 * no thread.  On any code but PGPACER_OK there is nothing to be ended.
 */
int
watch_begin(Watch *w, pgpacer_cancel *parent, int64_t until_us)
{
	int64_t		now = clock_us();

	*w = (Watch) {.parent = parent,.until_us = until_us};
	w->child = pgpacer_cancel_new();
	if (!w->child)
		return PGPACER_SYSTEM;
	if (parent && pgpacer_cancel_reason(parent) != 0)
		pgpacer_cancel_fire(w->child, pgpacer_cancel_reason(parent));
	else if (now >= until_us)
		pgpacer_cancel_fire(w->child, PGPACER_REASON_DEADLINE);
	else if (parent || until_us != PGPACER_NO_LIMIT)
	{
		/* told to those who look ahead too: pgpacer_book asks for no slot beyond it */
		if (until_us != PGPACER_NO_LIMIT)
			pgpacer_cancel_deadline(w->child, until_us - now);
		w->done = pgpacer_cancel_new();
		w->running = w->done && thread_begin(&w->thread, watch, w) == 0;
		if (!w->running)
		{
			watch_end(w);
			return PGPACER_SYSTEM;
		}
	}
	return PGPACER_OK;
}

/* Ends the thread, waiting for no longer than it takes to wake it, and frees the tokens. */
void
watch_end(Watch *w)
{
	if (w->running)
	{
		pgpacer_cancel_fire(w->done, 1);
		pthread_join(w->thread, NULL);
	}
	pgpacer_cancel_free(w->done);
	pgpacer_cancel_free(w->child);
}
