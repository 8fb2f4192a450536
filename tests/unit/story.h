/*
 * story.h - run a table of steps against the schedule
 *
 * A story is a configuration and a list of steps, each a verb at a fixed
 * instant with the answer that is expected of it.  The runner does what the
 * server does with a row: it works on a copy, keeps it if the verb says so, and
 * loses the unlogged half in a crash.  After every step it checks what holds
 * whatever happened (check_state).
 *
 * Instants are microseconds after T0 by a clock that nobody sets (.at) or by
 * the wall clock (what is expected); STEP_CLOCK moves the two apart.
 */
#ifndef PACER_STORY_H
#define PACER_STORY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../ext/schedule.h"

#define T0				INT64_C(820000000000000)	/* late in 2025 */
#define MONO0			INT64_C(5000000000)

#define MS(n)			(INT64_C(1000) * (n))
#define S(n)			(INT64_C(1000000) * (n))

#define lengthof(a)		(sizeof(a) / sizeof((a)[0]))

typedef enum Verb
{
	BOOK, APPOINT, RELEASE, CONFIRM, PAUSE, RESUME, ADVANCE, REWIND,
	CHANGE, CRASH, STEP_CLOCK, NEW_KERNEL, BLIND, SEE
} Verb;

/* what SEE looks at: times relative to T0, counts as they are */
typedef enum What
{
	HEAD, NEXT_START, START_FLOOR, RESERVED, WAITING, QUOTA_LEFT, NRECENT, LATE, BOOKED,
	PAUSED_UNTIL, LAST_START, PROVED
} What;

typedef struct Step
{
	int			line;
	Verb		verb;
	int64_t		at;
	int64_t		ticket;
	int64_t		slot;			/* confirm: as the caller has it, relative; NO_SLOT */
	int32_t		permits;		/* 0: 1 */
	bool		bound;			/* is there a max_wait? */
	int64_t		max_wait;
	uint64_t	key;
	int			answer;			/* ScheduleAnswer or ScheduleRelease */
	int64_t		want;			/* a slot relative to T0, or a wait */
	int64_t		want_ticket;	/* 0: the one asked for */
	What		what;
	size_t		field;			/* CHANGE: offset in ScheduleConfig, and its size */
	size_t		size;
} Step;

#define NO_SLOT			INT64_MIN
#define ANY				INT64_MIN
#define FOREVER			(SCHEDULE_FOREVER - T0)

#define STEP(v, ...)	{.line = __LINE__, .verb = (v), __VA_ARGS__}
/* book(at, ticket) -> slot; more fields may follow: .permits, .key, ... */
#define book(t, id, s, ...)	STEP(BOOK, .at = (t), .ticket = (id), .answer = SCHEDULE_OK, .want = (s), ##__VA_ARGS__)
#define refuse(t, why, s, ...) \
	STEP(BOOK, .at = (t), .ticket = 999, .answer = (why), .want = (s), ##__VA_ARGS__)
#define within(us)		.bound = true, .max_wait = (us)
#define appoint(t, s)	STEP(APPOINT, .at = (t), .answer = SCHEDULE_OK, .want = (s))
#define release(t, id, o)	STEP(RELEASE, .at = (t), .ticket = (id), .answer = (o))
#define confirm(t, id, w)	STEP(CONFIRM, .at = (t), .ticket = (id), .slot = NO_SLOT, .answer = SCHEDULE_OK, .want = (w))
#define confirm_at(t, id, s, w) \
	STEP(CONFIRM, .at = (t), .ticket = (id), .slot = (s), .answer = SCHEDULE_OK, .want = (w))
#define not_held(t, id)	STEP(CONFIRM, .at = (t), .ticket = (id), .slot = NO_SLOT, .answer = SCHEDULE_NOT_HELD)
#define pause_until(t, u)	STEP(PAUSE, .at = (t), .want = (u), .answer = SCHEDULE_OK)
#define resume(t)		STEP(RESUME, .at = (t))
#define advance(t, u)	STEP(ADVANCE, .at = (t), .want = (u))
#define rewind_to(t, u)	STEP(REWIND, .at = (t), .want = (u))
#define crash()			STEP(CRASH, .at = 0)
/* and a record that no answer depends on did not reach the log */
#define crash_unflushed()	STEP(CRASH, .at = 0, .want = 1)
#define step_clock(by)	STEP(STEP_CLOCK, .want = (by))
#define new_kernel()	STEP(NEW_KERNEL, .at = 0)
/* from here on the clocks cannot be read at one instant */
#define blind(on)		STEP(BLIND, .want = (on))
#define change(f, v) \
	STEP(CHANGE, .field = offsetof(ScheduleConfig, f), .size = sizeof(((ScheduleConfig *) 0)->f), .want = (v))
#define see(t, w, v)	STEP(SEE, .at = (t), .what = (w), .want = (v))

typedef struct World
{
	ScheduleConfig cfg;
	Schedule	row;
	ScheduleLogged durable;		/* as in the last record that an answer depends on */
	int64_t		run;
	int64_t		kernel;
	int64_t		wall_off;		/* how far the wall clock has been set */
	bool		blind;
} World;

#define CONFIG() \
	{.interval_us = S(10), .burst = 1, .max_waiting = 100, .max_wait_us = -1, \
	 .quota_origin_us = T0, .reserve_ahead_us = S(1), .clock_tolerance_us = MS(10)}

static const ScheduleConfig plain = CONFIG();

static inline void
world_init(World *w, const ScheduleConfig *cfg, int32_t remembered)
{
	memset(w, 0, sizeof(*w));
	w->cfg = *cfg;
	w->run = 4711;
	w->kernel = 42;
	schedule_init(&w->row, remembered);
}

static inline ScheduleClock
world_clock(const World *w, int64_t at)
{
	ScheduleClock clk = {.wall = T0 + at + w->wall_off,
	.mono = w->blind ? 0 : MONO0 + at,.kernel = w->kernel};

	return clk;
}

/* the crash keeps the logged half alone; the new run has another mark */
static inline void
world_crash(World *w, bool unflushed)
{
	if (unflushed)
		w->row.logged = w->durable;
	memset(&w->row.un, 0x55, sizeof(w->row.un));
	memset(w->row.recent, 0x11, sizeof(w->row.recent));
	w->run++;
}

#define holds(line, ok) \
	do { if (!(ok)) fail_msg("line %d: does not hold: %s", (line), #ok); } while (0)

/* what holds after every call, for every configuration */
static inline void
check_state(const World *w, int line)
{
	const ScheduleUnlogged *un = &w->row.un;
	const ScheduleLogged *lg = &w->row.logged;

	holds(line, un->nrecent >= 0 && un->nrecent <= w->row.remembered);
	holds(line, un->first >= 0 && un->first < w->row.remembered);
	holds(line, un->next_request_at >= un->next_start);
	holds(line, un->next_start >= un->start_floor);
	holds(line, un->start_floor >= 0);
	holds(line, un->next_request_at <= SCHEDULE_END);
	holds(line, un->quota_used >= 0 && un->last_start >= 0);
	holds(line, un->older_count >= 0 && un->older_since >= 0 && un->older_until >= 0);
	holds(line, un->unseen_until >= 0 && un->waited_us >= 0);
	holds(line, un->booked >= 0 && un->refused >= 0 && un->released >= 0);
	holds(line, un->confirmed >= 0 && un->late >= 0);
	holds(line, lg->reserved_until >= un->next_request_at);
	holds(line, lg->paused_until >= 0 && lg->start_reach >= 0);
	holds(line, lg->quota_reserved >= un->quota_used);
	for (int i = 0; i < un->nrecent; i++)
	{
		const ScheduleEntry *e = schedule_entry(&w->row, i);

		holds(line, entry_state(e) >= ENTRY_HELD && entry_state(e) <= ENTRY_GONE);
		holds(line, entry_ticket(e) > 0 && entry_permits(e) > 0);
		holds(line, e->slot > 0 && e->width > 0);
		for (int k = 0; k < i; k++)
			holds(line, entry_ticket(schedule_entry(&w->row, k)) != entry_ticket(e));
	}
	/* find_ticket() looks at all of them */
	for (int i = (int) un->nrecent; i < w->row.remembered; i++)
		holds(line, schedule_entry(&w->row, i)->word == 0);
}

static inline int64_t
look(const World *w, What what, int64_t at)
{
	Schedule	s = w->row;
	ScheduleClock clk = world_clock(w, at);

	schedule_enter(&s, &w->cfg, &clk, w->run);
	switch (what)
	{
		case HEAD:
			return s.un.next_request_at - T0;
		case NEXT_START:
			return s.un.next_start - T0;
		case START_FLOOR:
			return s.un.start_floor - T0;
		case RESERVED:
			return s.logged.reserved_until - T0;
		case PAUSED_UNTIL:
			return s.logged.paused_until - T0;
		case LAST_START:
			return s.un.last_start - T0;
		case PROVED:
			return s.un.proved_until - T0;
		case WAITING:
			return schedule_waiting(&s, clk.wall);
		case QUOTA_LEFT:
			return schedule_quota_left(&s, &w->cfg, clk.wall);
		case NRECENT:
			return s.un.nrecent;
		case LATE:
			return s.un.late;
		case BOOKED:
			return s.un.booked;
	}
	return -1;
}

/*
 * Keep what a verb did, as the server does: the logged half reaches the row
 * through the log alone, so it must not have changed unless leave() says so.
 */
static inline void
world_keep(World *w, Schedule *s, const ScheduleClock *clk, int line)
{
	bool		logged = schedule_leave(s, &w->cfg, clk);

	holds(line, logged || memcmp(&s->logged, &w->row.logged, sizeof(s->logged)) == 0);
	if (!schedule_proved_before(&s->un))
		w->durable = s->logged;
	else if (logged)
		w->durable = w->row.logged;
	w->row = *s;
}

/* one booking: kept only if it is answered */
static inline ScheduleAnswer
world_book(World *w, int64_t at, const ScheduleRequest *req, ScheduleBooking *out, int line)
{
	Schedule	s = w->row;
	ScheduleClock clk = world_clock(w, at);
	ScheduleAnswer answer;

	schedule_enter(&s, &w->cfg, &clk, w->run);
	answer = schedule_book(&s, &w->cfg, clk.wall, req, out);
	if (answer == SCHEDULE_OK)
		world_keep(w, &s, &clk, line);
	return answer;
}

static inline void
run_book(World *w, const Step *st)
{
	ScheduleRequest req = {
		.permits = st->permits ? st->permits : 1,
		.max_wait_us = st->bound ? st->max_wait : -1,
		.key = st->key,
		.ticket = st->verb == APPOINT ? 0 : st->ticket,
	};
	ScheduleBooking out;
	int64_t		now = world_clock(w, st->at).wall;
	ScheduleAnswer answer = world_book(w, st->at, &req, &out, st->line);

	if (answer != (ScheduleAnswer) st->answer)
		fail_msg("line %d: answered %d, not %d (slot %+lld us)", st->line, answer, st->answer,
				 (long long) (out.slot - T0));
	if (st->want != ANY && out.slot - T0 != st->want)
		fail_msg("line %d: slot %+lld us, not %+lld", st->line,
				 (long long) (out.slot - T0), (long long) st->want);
	if (answer != SCHEDULE_OK)
		return;
	if (st->verb == APPOINT)
		holds(st->line, out.ticket == 0 && !out.started);
	else
	{
		holds(st->line, out.ticket == (st->want_ticket ? st->want_ticket : st->ticket));
		holds(st->line, out.started == (out.slot <= now));
	}
}

static inline void
run_confirm(World *w, const Step *st)
{
	Schedule	s = w->row;
	ScheduleClock clk = world_clock(w, st->at);
	int64_t		wait = -1;
	ScheduleAnswer answer;

	schedule_enter(&s, &w->cfg, &clk, w->run);
	answer = schedule_confirm(&s, &w->cfg, clk.wall, st->ticket,
							  st->slot == NO_SLOT ? 0 : T0 + st->slot, &wait);
	if (answer != (ScheduleAnswer) st->answer)
		fail_msg("line %d: answered %d, not %d", st->line, answer, st->answer);
	if (answer != SCHEDULE_OK)
		return;
	if (wait != st->want)
		fail_msg("line %d: wait %lld us, not %lld", st->line, (long long) wait, (long long) st->want);
	world_keep(w, &s, &clk, st->line);
}

static inline void
run_other(World *w, const Step *st)
{
	Schedule	s = w->row;
	ScheduleClock clk = world_clock(w, st->at);
	int			answer = 0;

	schedule_enter(&s, &w->cfg, &clk, w->run);
	switch (st->verb)
	{
		case RELEASE:
			answer = schedule_release(&s, &w->cfg, clk.wall, st->ticket);
			if (answer != st->answer)
				fail_msg("line %d: release answered %d, not %d", st->line, answer, st->answer);
			if (answer != RELEASE_RELEASED)
				return;
			break;
		case PAUSE:
			answer = schedule_pause(&s, &w->cfg, clk.wall,
									st->want == FOREVER ? SCHEDULE_FOREVER : T0 + st->want);
			if (answer != st->answer)
				fail_msg("line %d: pause answered %d, not %d", st->line, answer, st->answer);
			if (answer != SCHEDULE_OK)
				return;
			break;
		case RESUME:
			schedule_resume(&s);
			break;
		case ADVANCE:
			schedule_advance(&s, T0 + st->want);
			break;
		case REWIND:
			schedule_rewind(&s, T0 + st->want);
			break;
		default:
			fail_msg("line %d: no such verb", st->line);
	}
	world_keep(w, &s, &clk, st->line);
}

static inline void
run_step(World *w, const Step *st)
{
	int64_t		got;
	int32_t		narrow = (int32_t) st->want;

	switch (st->verb)
	{
		case BOOK:
		case APPOINT:
			run_book(w, st);
			break;
		case CONFIRM:
			run_confirm(w, st);
			break;
		case CHANGE:
			if (st->size == sizeof(narrow))
				memcpy((char *) &w->cfg + st->field, &narrow, sizeof(narrow));
			else
				memcpy((char *) &w->cfg + st->field, &st->want, sizeof(st->want));
			return;
		case CRASH:
			world_crash(w, st->want != 0);
			return;
		case STEP_CLOCK:
			w->wall_off += st->want;
			return;
		case NEW_KERNEL:
			w->kernel++;
			return;
		case BLIND:
			w->blind = st->want != 0;
			return;
		case SEE:
			got = look(w, st->what, st->at);
			if (got != st->want)
				fail_msg("line %d: sees %lld, not %lld", st->line, (long long) got, (long long) st->want);
			return;
		default:
			run_other(w, st);
			break;
	}
	/* after a crash nothing but the logged half means anything until the next call */
	if (w->row.logged.run == w->run)
		check_state(w, st->line);
}

static inline void
run_story(const ScheduleConfig *cfg, int32_t remembered, const Step *steps, size_t n)
{
	World		w;

	world_init(&w, cfg, remembered);
	for (size_t i = 0; i < n; i++)
		run_step(&w, &steps[i]);
}

#define STORY(cfg, remembered, ...) \
	do { \
		static const Step steps_[] = {__VA_ARGS__}; \
		run_story(&(cfg), (remembered), steps_, lengthof(steps_)); \
	} while (0)

#endif							/* PACER_STORY_H */
