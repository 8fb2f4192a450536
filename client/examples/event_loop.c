/*
 * event_loop.c SOURCE - three starts awaited at once, in one poll()
 *
 *		$ pgpacer create api 100ms
 *		$ ./event_loop api
 *		one started
 *		one started
 *		one started
 */
#include <pgpacer.h>
#include <poll.h>
#include <stdio.h>

#define CALLS	3

/* Milliseconds for poll(), rounded up, so as not to come too early and spin. */
static int
poll_timeout(int64_t us)
{
	return us > 60000000 ? 60000 : (int) ((us + 999) / 1000);
}

int
main(int argc, char **argv)
{
	pgpacer    *h[CALLS];
	pgpacer_step *step[CALLS];
	int			left = 0;
	int			failed = 0;

	for (int i = 0; i < CALLS; i++)
	{
		pgpacer_open(&h[i], "", NULL);
		if (pgpacer_begin(&step[i], h[i], argc > 1 ? argv[1] : "api", NULL) == PGPACER_OK)
			left++;
	}
	while (left > 0)
	{
		struct pollfd fds[CALLS];
		int64_t		timeout = PGPACER_NO_LIMIT;

		for (int i = 0; i < CALLS; i++)
		{
			int			rc = step[i] ? pgpacer_step_on(step[i]) : PGPACER_WAIT;

			if (rc != PGPACER_WAIT)
			{
				puts(rc == PGPACER_OK ? "one started" : pgpacer_errmsg(h[i]));
				failed += rc != PGPACER_OK;
				pgpacer_step_end(step[i]);
				step[i] = NULL;
				left--;
			}
			fds[i] = (struct pollfd) {.fd = pgpacer_step_fd(step[i]),.events = pgpacer_step_events(step[i])};
			if (step[i] && pgpacer_step_timeout_us(step[i]) < timeout)
				timeout = pgpacer_step_timeout_us(step[i]);
		}
		if (left > 0)
			poll(fds, CALLS, poll_timeout(timeout));	/* and whatever else the loop is for */
	}
	for (int i = 0; i < CALLS; i++)
		pgpacer_close(h[i]);
	return failed != 0;
}
