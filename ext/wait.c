/*
 * wait.c - sleep in the server
 *
 * The end is an instant of the clock that goes on while the machine sleeps, and
 * is compared with after every piece of sleep: a wait is never short, and no
 * timer has to be as long as the wait.  No lock is held.
 */
#include "postgres.h"

#include "compat.h"
#include "miscadmin.h"
#include "pacer_clock.h"
#include "storage/latch.h"
#include "utils/wait_event.h"
#include "wait.h"

/* the server does not look whether an idle client has gone */
#define LOOK_FOR_CLIENT_MS	1000

static uint32 wait_event = 0;	/* 0: not registered yet */

static bool
is_to_end(void)
{
	if (pacer_statement_is_to_end())
		return true;

	/* what else is pending neither ends the statement nor may wait for it */
	CHECK_FOR_INTERRUPTS();
	return false;
}

static bool
client_is_gone(void)
{
	if (MyProcPort == NULL || pq_check_connection())
		return false;

	/* served as the server does when it notices by itself */
	ClientConnectionLost = true;
	InterruptPending = true;
	return true;
}

bool
wait_until_elapsed(int64 wait_us)
{
	int64		end = pacer_clock_elapsed() + wait_us;
	int64		look = pacer_clock_elapsed() + LOOK_FOR_CLIENT_MS * 1000;

	if (wait_event == 0)
		wait_event = pacer_wait_event();
	for (;;)
	{
		int64		now = pacer_clock_elapsed();
		int64		left = end - now;

		if (is_to_end())
			return false;
		if (left <= 0)
			return true;
		if (now >= look)
		{
			if (client_is_gone())
				return false;
			look = now + LOOK_FOR_CLIENT_MS * 1000;
		}

		/* the latch counts in milliseconds: the rest is slept without it */
		if (left < 1000)
			pg_usleep((long) left);
		else
		{
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
							 (long) Min(left / 1000, LOOK_FOR_CLIENT_MS), wait_event);
			ResetLatch(MyLatch);
		}
	}
}
