/*
 * fuzz.c - libFuzzer on the schedule core
 *
 *	 clang -std=gnu11 -g -O1 -fsanitize=fuzzer,undefined,address -fno-sanitize-recover=all \
 *		 -Iext ext/schedule.c tests/model/fuzz.c -o fuzz && ./fuzz -max_total_time=300
 *
 * Bytes become a configuration that pacer.source would accept, clocks, and
 * verbs as the server would call them.  Checks what holds after every call,
 * whatever the numbers: nothing overflows, heads in order, no slot before now,
 * the head not behind a held booking, the logged half covers the other.
 */
#include "schedule.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition) \
	do { \
		if (!(condition)) \
		{ \
			fprintf(stderr, "fuzz.c:%d: not so: %s\n", __LINE__, #condition); \
			abort(); \
		} \
	} while (0)

/* "spare | assigned | gap | state (3)", says schedule.h */
#ifndef ENTRY_ASSIGNED
#define ENTRY_ASSIGNED	UINT64_C(16)
#endif

#define TIMESTAMP_MIN	INT64_C(-211813488000000000)	/* 4713 BC, timestamptz begins */
#define TODAY			INT64_C(800000000000000)

typedef struct Input
{
	const uint8_t *at;
	size_t		left;
} Input;

static uint64_t
take(Input *in, int bytes)
{
	uint64_t	v = 0;

	while (bytes-- > 0 && in->left > 0)
	{
		v = v << 8 | *in->at++;
		in->left--;
	}
	return v;
}

/* a number in [low, high], small ones and the edges often */
static int64_t
number(Input *in, int64_t low, int64_t high)
{
	uint64_t	range = (uint64_t) high - (uint64_t) low;
	uint64_t	v;

	switch (take(in, 1) % 8)
	{
		case 0:
			return low;
		case 1:
			return high;
		case 2:
			v = take(in, 1);
			break;
		case 3:
			v = take(in, 2) * 1000;
			break;
		case 4:
			v = take(in, 3) * 1000;
			break;
		case 5:
			v = take(in, 5);
			break;
		case 6:
			v = range - take(in, 4);
			break;
		default:
			v = take(in, 8);
	}
	return (int64_t) ((uint64_t) low + (range == UINT64_MAX ? v : v % (range + 1)));
}

static ScheduleConfig
some_config(Input *in)
{
	ScheduleConfig cfg = {
		.interval_us = number(in, 1, SCHEDULE_END),
		.burst = (int32_t) number(in, 1, INT32_MAX),
		.max_waiting = (int32_t) number(in, -1, INT32_MAX),
		.max_wait_us = number(in, -1, INT64_MAX),
		.quota = (int32_t) number(in, 0, INT32_MAX),
		.quota_window_us = number(in, 1, INT64_C(36525) * 86400 * 1000000),
		.quota_origin_us = number(in, TIMESTAMP_MIN, SCHEDULE_END),
		.reserve_ahead_us = number(in, 0, INT32_MAX) * 1000,
		.clock_tolerance_us = number(in, 0, INT32_MAX) * 1000
	};

	/* one in two is plain enough for the rest to matter */
	if (take(in, 1) % 2)
	{
		cfg.interval_us = 1 + cfg.interval_us % 5000000;
		cfg.burst = 1 + cfg.burst % 4;
		cfg.max_waiting = -1;
		cfg.max_wait_us = -1;
		cfg.quota %= 6;
		cfg.quota_window_us = 1 + cfg.quota_window_us % 60000000;
		cfg.reserve_ahead_us = 1000000;
		cfg.clock_tolerance_us = 10000;
	}
	if (cfg.quota == 0)
		cfg.quota_window_us = 0;
	return cfg;
}

static void
check_state(const Schedule *s, const ScheduleConfig *cfg, int64_t now, bool *at_the_end)
{
	const ScheduleUnlogged *un = &s->un;
	const ScheduleLogged *lg = &s->logged;

	REQUIRE(un->start_floor >= 0);
	REQUIRE(un->next_start >= un->start_floor);
	REQUIRE(un->next_request_at >= un->next_start);
	REQUIRE(un->next_request_at <= SCHEDULE_END);
	REQUIRE(lg->reserved_until >= un->next_request_at);
	REQUIRE(lg->reserved_until <= SCHEDULE_END);
	REQUIRE(lg->quota_reserved >= un->quota_used);
	REQUIRE(un->quota_used >= 0);
	REQUIRE(lg->paused_until >= 0);
	REQUIRE(un->nrecent >= 0 && un->nrecent <= s->remembered);
	REQUIRE(un->first >= 0 && un->first < s->remembered);
	REQUIRE(un->older_count >= 0);
	REQUIRE(schedule_waiting(s, now) >= 0);
	(void) schedule_quota_left(s, cfg, now);

	/* times squeezed against the end of time have lost their distances */
	*at_the_end |= un->next_request_at == SCHEDULE_END;
	for (int i = 0; i < un->nrecent; i++)
	{
		const ScheduleEntry *e = schedule_entry(s, i);

		REQUIRE(entry_state(e) >= ENTRY_HELD && entry_state(e) <= ENTRY_GONE);
		REQUIRE(entry_ticket(e) > 0);
		REQUIRE(e->width > 0);
		REQUIRE(e->slot >= 0 && e->slot <= SCHEDULE_END);
		for (int j = 0; j < i; j++)
			REQUIRE(entry_ticket(schedule_entry(s, j)) != entry_ticket(e));
		*at_the_end |= e->slot == SCHEDULE_END;
		/* the head is beyond whatever is held */
		if (cfg->burst == 1 && entry_state(e) == ENTRY_HELD && !(e->word & ENTRY_ASSIGNED))
			REQUIRE(un->next_request_at >= e->slot || *at_the_end);
	}
	for (int i = (int) un->nrecent; i < s->remembered; i++)
		REQUIRE(schedule_entry(s, i)->word == 0);
}

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Input		in = {data, size};
	Schedule	state;
	ScheduleLogged latest;		/* the last that was logged */
	ScheduleLogged durable;		/* the last that an answer depends on */
	ScheduleConfig cfg;
	ScheduleClock clk = {TODAY, 3600000000, 7};
	int64_t		run = 1;
	int64_t		ticket = 0;
	int64_t		told = 0;
	bool		one_burst;
	bool		at_the_end = false;

	memset(&state, 0, sizeof(state));
	schedule_init(&state, (int32_t) number(&in, SCHEDULE_MIN_REMEMBERED, SCHEDULE_MAX_REMEMBERED));
	if (state.remembered > 8 && take(&in, 1) % 2)
		schedule_init(&state, 4 + state.remembered % 5);
	durable = latest = state.logged;
	cfg = some_config(&in);
	one_burst = cfg.burst == 1;

	while (in.left > 0)
	{
		Schedule	copy;
		Schedule	again;
		ScheduleAnswer answer = SCHEDULE_OK;
		ScheduleAnswer answer_again = SCHEDULE_OK;
		uint8_t		verb = (uint8_t) take(&in, 1);

		/* time passes; seldom something happens to it */
		switch (take(&in, 1) % 16)
		{
			case 0:
				clk.wall = number(&in, 1, SCHEDULE_END);
				break;
			case 1:
				clk.mono = number(&in, 0, INT64_MAX);
				break;
			case 2:
				clk.kernel = (int64_t) take(&in, 1) % 3;
				break;
			case 3:
			case 4:
			case 5:
				break;
			case 6:
				if (told > clk.wall)
				{
					if (clk.mono < INT64_MAX - (told - clk.wall))
						clk.mono += told - clk.wall;
					clk.wall = told;
				}
				break;
			default:
				{
					int64_t		by = (int64_t) take(&in, 3);

					if (clk.wall < SCHEDULE_END - by && clk.mono < INT64_MAX - by)
					{
						clk.wall += by;
						clk.mono += by;
					}
				}
		}

		if (verb % 32 == 31)
		{
			/* a crash: the logged half is left, of the last record or the one needed, the other is anything */
			memset(&state.un, (int) take(&in, 1), sizeof(state.un));
			memset(state.recent, (int) take(&in, 1), sizeof(state.recent));
			if (take(&in, 1) % 2)
				latest = durable;
			state.logged = durable = latest;
			run++;
			continue;
		}
		if (verb % 32 == 30)
		{
			cfg = some_config(&in);
			one_burst = false;
			continue;
		}

		copy = state;
		schedule_enter(&copy, &cfg, &clk, run);
		at_the_end |= copy.un.next_request_at == SCHEDULE_END;
		again = copy;
		switch (verb % 16)
		{
			case 0:
			case 1:
			case 2:
			case 3:
			case 4:
			case 5:
				{
					ScheduleRequest req = {.permits = 1, .max_wait_us = -1, .key = 0, .ticket = 0};
					ScheduleBooking out;
					ScheduleBooking out_again;

					if (verb % 16 != 0)
					{
						req.ticket = ++ticket;
						req.key = verb & 64 ? verb >> 7 : 0;
						if (verb & 32)
						{
							req.permits = (int32_t) number(&in, 1, INT32_MAX);
							req.max_wait_us = number(&in, -1, INT64_MAX);
						}
					}
					answer = schedule_book(&copy, &cfg, clk.wall, &req, &out);
					answer_again = schedule_book(&again, &cfg, clk.wall, &req, &out_again);
					REQUIRE(answer != SCHEDULE_OK || out.slot == out_again.slot);
					if (answer == SCHEDULE_OK)
					{
						REQUIRE(out.slot >= clk.wall || out.ticket != req.ticket);
						/* no wait if and only if it was recorded as a start */
						if (req.ticket != 0 && out.ticket == req.ticket)
							REQUIRE(out.started == (out.slot == clk.wall));
						/* nobody starts in a pause */
						REQUIRE(out.slot >= copy.logged.paused_until || out.ticket != req.ticket);
						told = out.slot;
					}
					else if (answer == SCHEDULE_FULL || answer == SCHEDULE_TOO_LONG)
						REQUIRE(out.slot > clk.wall);
					break;
				}
			case 6:
			case 7:
			case 8:
				{
					int64_t		which = ticket - (int64_t) take(&in, 1) % 10;
					int64_t		head = copy.un.next_request_at;
					ScheduleRelease r = schedule_release(&copy, &cfg, clk.wall, which);

					REQUIRE(r == schedule_release(&again, &cfg, clk.wall, which));
					/* only "released" gives anything back */
					REQUIRE(copy.un.next_request_at <= head);
					REQUIRE(r == RELEASE_RELEASED || copy.un.next_request_at == head);
					REQUIRE(schedule_release(&copy, &cfg, clk.wall, which) != RELEASE_RELEASED);
					break;
				}
			case 9:
			case 10:
			case 11:
				{
					int64_t		which = ticket - (int64_t) take(&in, 1) % 10;
					int64_t		slot = verb & 32 ? number(&in, TIMESTAMP_MIN, SCHEDULE_END) : told;
					int64_t		floor = copy.un.start_floor;
					int64_t		wait = -1;
					int64_t		wait_again = -1;

					if (verb & 64)
						which = 0;
					answer = schedule_confirm(&copy, &cfg, clk.wall, which, slot, &wait);
					answer_again = schedule_confirm(&again, &cfg, clk.wall, which, slot, &wait_again);
					REQUIRE(answer != SCHEDULE_OK || (wait >= 0 && wait == wait_again));
					/* a start took place: after the pause, and after the one before */
					if (answer == SCHEDULE_OK && copy.un.start_floor != floor)
					{
						REQUIRE(wait == 0);
						REQUIRE(copy.logged.paused_until <= clk.wall);
						if (one_burst)
							REQUIRE(floor <= clk.wall);
					}
					break;
				}
			case 12:
				{
					int64_t		until = verb & 32 ? SCHEDULE_FOREVER : number(&in, 1, SCHEDULE_END);
					int64_t		before = copy.logged.paused_until;

					answer = schedule_pause(&copy, &cfg, clk.wall, until);
					answer_again = schedule_pause(&again, &cfg, clk.wall, until);
					if (answer == SCHEDULE_OK)
						REQUIRE(copy.logged.paused_until >= before && copy.logged.paused_until >= until);
					break;
				}
			case 13:
				schedule_resume(&copy);
				REQUIRE(copy.logged.paused_until <= clk.wall);
				break;
			case 14:
				{
					int64_t		to = number(&in, 1, SCHEDULE_END);

					schedule_advance(&copy, to);
					REQUIRE(copy.un.next_request_at >= to);
					break;
				}
			case 15:
				schedule_rewind(&copy, number(&in, 1, SCHEDULE_END));
				REQUIRE(copy.un.nrecent == 0);
				break;
		}
		if (verb % 16 < 6 || (verb % 16 > 8 && verb % 16 < 13))
			REQUIRE(answer == answer_again);
		if (answer == SCHEDULE_OK)
		{
			bool		logged = schedule_leave(&copy, &cfg, &clk);

			/* what is not logged must not have changed */
			REQUIRE(logged || memcmp(&copy.logged, &state.logged, sizeof(durable)) == 0);
			REQUIRE(!logged || copy.logged.logged_at == clk.wall);
			check_state(&copy, &cfg, clk.wall, &at_the_end);
			if (logged)
			{
				durable = latest;
				latest = copy.logged;
			}
			if (!schedule_proved_before(&copy.un))
				durable = latest;
			state = copy;
		}
	}
	return 0;
}
