/*
 * driver.c - the schedule core behind a pipe, for torture.py
 *
 * Reads one operation a line, runs ext/schedule.c as the server would (on a
 * copy, kept only where the answer says so), and prints one line: the answer
 * and the observable state.  Numbers are decimal int64, separated by blanks.
 *
 *	 init REMEMBERED
 *	 cfg INTERVAL BURST MAX_WAITING MAX_WAIT QUOTA WINDOW ORIGIN AHEAD TOLERANCE
 *	 crash KIND				0: the unlogged half is zeros, 1: it is garbage, and what no answer
 *							depends on did not reach the log
 *	 book WALL MONO KERNEL RUN PERMITS MAX_WAIT KEY TICKET
 *	 release WALL MONO KERNEL RUN TICKET
 *	 confirm WALL MONO KERNEL RUN TICKET SLOT
 *	 pause WALL MONO KERNEL RUN UNTIL
 *	 resume WALL MONO KERNEL RUN
 *	 advance WALL MONO KERNEL RUN TO
 *	 rewind WALL MONO KERNEL RUN TO
 *
 * A crash keeps the logged half as of the last leave() that returned true, or, if
 * its marks were raised ahead of need, that before; it prints them.  What is checked here, since only C can: a leave() that returned false left
 * the logged half as it was.
 */
#include "schedule.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "spare | assigned | gap | state (3)", says schedule.h */
#ifndef ENTRY_ASSIGNED
#define ENTRY_ASSIGNED	UINT64_C(16)
#endif

static Schedule state;
static const Schedule nothing;
static ScheduleLogged latest;	/* the last that was logged */
static ScheduleLogged durable;	/* the last that an answer depends on */
static ScheduleConfig config;

static int
read_numbers(char *line, int64_t *number, int max)
{
	int			n = 0;
	char	   *word;

	for (word = strtok(line, " \n"); word != NULL && n < max; word = strtok(NULL, " \n"))
		number[n++] = strtoll(word, NULL, 10);
	return n;
}

static void
print_state(const Schedule *s, int64_t now, bool logged)
{
	int64_t		i;

	printf(" | %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64,
		   s->un.next_request_at, s->un.next_start, s->un.start_floor,
		   s->logged.paused_until, s->logged.quota_start, s->un.quota_used,
		   schedule_waiting(s, now));
	printf(" %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64,
		   config.interval_us > 0 ? schedule_quota_left(s, &config, now) : -1,
		   s->un.older_count, s->un.older_since, s->un.older_until);
	printf(" | %d %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64,
		   logged, s->logged.reserved_until, s->logged.quota_reserved,
		   s->logged.start_reach, s->logged.logged_at,
		   s->un.clock_wall, s->un.clock_mono, s->un.clock_kernel);
	printf(" | %" PRId64, s->un.nrecent);
	for (i = 0; i < s->un.nrecent; i++)
	{
		const ScheduleEntry *e = schedule_entry(s, (int) i);

		printf(" %" PRId64 " %d %" PRId32 " %" PRId64 " %" PRId64 " %d",
			   entry_ticket(e), (int) entry_state(e), entry_permits(e), e->slot, e->width,
			   (e->word & ENTRY_ASSIGNED) != 0);
	}
	putchar('\n');
}

static void
crash(int64_t kind)
{
	if (kind == 0)
	{
		memset(&state.un, 0, sizeof(state.un));
		memset(state.recent, 0, sizeof(state.recent));
	}
	else
	{
		memset(&state.un, 0xA5, sizeof(state.un));
		memset(state.recent, 0xA5, sizeof(state.recent));
	}
	if (kind != 0)
		latest = durable;
	state.logged = durable = latest;
	printf("crash %" PRId64 " %" PRId64 "\n", latest.reserved_until, latest.logged_at);
}

/* the verb itself; prints its answer, tells whether the state is to be kept */
static bool
run_verb(Schedule *s, const char *verb, int64_t now, const int64_t *arg)
{
	ScheduleAnswer answer = SCHEDULE_OK;
	int64_t		wait_us = 0;

	if (strcmp(verb, "book") == 0)
	{
		ScheduleRequest request = {(int32_t) arg[0], arg[1], (uint64_t) arg[2], arg[3]};
		ScheduleBooking booking = {0, 0, false};

		answer = schedule_book(s, &config, now, &request, &booking);
		printf("%d %" PRId64 " %" PRId64 " %d", answer, booking.ticket, booking.slot, booking.started);
	}
	else if (strcmp(verb, "release") == 0)
		printf("%d", schedule_release(s, &config, now, arg[0]));
	else if (strcmp(verb, "confirm") == 0)
	{
		answer = schedule_confirm(s, &config, now, arg[0], arg[1], &wait_us);
		printf("%d %" PRId64, answer, wait_us);
	}
	else
	{
		if (strcmp(verb, "pause") == 0)
			answer = schedule_pause(s, &config, now, arg[0]);
		else if (strcmp(verb, "resume") == 0)
			schedule_resume(s);
		else if (strcmp(verb, "advance") == 0)
			schedule_advance(s, arg[0]);
		else if (strcmp(verb, "rewind") == 0)
			schedule_rewind(s, arg[0]);
		else
			exit(2);
		printf("%d", answer);
	}
	return answer == SCHEDULE_OK;
}

int
main(void)
{
	static char line[1024];

	for (; fgets(line, sizeof(line), stdin) != NULL; fflush(stdout))
	{
		char		verb[16];
		int64_t		number[16] = {0};
		int			length = 0;

		if (sscanf(line, "%15s%n", verb, &length) != 1)
			continue;
		read_numbers(line + length, number, 16);

		if (strcmp(verb, "init") == 0)
		{
			memset(&state, 0, sizeof(state));
			schedule_init(&state, (int32_t) number[0]);
			durable = latest = state.logged;
			puts("init");
		}
		else if (strcmp(verb, "cfg") == 0)
		{
			config = (ScheduleConfig) {
				.interval_us = number[0], .burst = (int32_t) number[1],
				.max_waiting = (int32_t) number[2], .max_wait_us = number[3],
				.quota = (int32_t) number[4], .quota_window_us = number[5],
				.quota_origin_us = number[6], .reserve_ahead_us = number[7],
				.clock_tolerance_us = number[8]
			};
			puts("cfg");
		}
		else if (strcmp(verb, "crash") == 0)
			crash(number[0]);
		else
		{
			ScheduleClock clock = {number[0], number[1], number[2]};
			Schedule	copy = state;
			bool		logged = false;

			schedule_enter(&copy, &config, &clock, number[3]);
			if (run_verb(&copy, verb, clock.wall, number + 4))
			{
				logged = schedule_leave(&copy, &config, &clock);
				if (logged)
				{
					durable = latest;
					latest = copy.logged;
				}
				if (!schedule_proved_before(&copy.un))
					durable = latest;
				if (!logged && memcmp(&copy.logged, &state.logged, sizeof(latest)) != 0)
					printf(" UNLOGGED-CHANGE");
				state = copy;
			}
			/* a refused call does not settle a crash: there is no state to show yet */
			print_state(state.logged.run == number[3] ? &state : &nothing, clock.wall, logged);
		}
	}
	return 0;
}
