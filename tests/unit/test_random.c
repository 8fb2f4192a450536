/*
 * test_random.c - what holds for whatever sequence of calls
 *
 * Prints its seed; PACER_SEED=n repeats a run, PACER_OPS=n makes it longer.
 * The oracle is what callers were told, kept here beside the row: live bookings
 * with their slots, and the latest start.  See story.h for the state's own
 * conditions.
 */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "story.h"

#define TOLD			512
#define ENTRY_IS_ASSIGNED	(1 << 4)

/* a booking as its caller knows it */
typedef struct Told
{
	int64_t		ticket;			/* 0: an appointment */
	int64_t		slot;
	int64_t		width;
	int32_t		permits;
	bool		live;			/* neither released nor known to have started */
	bool		moved;			/* confirm gave it another place */
	bool		started;		/* at once: its caller does not ask */
} Told;

typedef struct Run
{
	World		w;
	int64_t		at;
	Told		told[TOLD];
	int			ntold;			/* ever; the latest TOLD are kept */
	int64_t		last_start;
	int64_t		last_width;
	int64_t		next_ticket;
	int64_t		starts_from;	/* quota: the window starts were counted in */
	int			starts;
	bool		check_slots;	/* burst 1, no pause, no rewind, no clock step */
	bool		check_starts;
	bool		check_quota;
	int			op;
} Run;

static uint64_t seed;
static uint64_t rng;

static uint64_t
draw(uint64_t n)
{
	uint64_t	z = (rng += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return (z ^ (z >> 31)) % n;
}

#define must(r, ok) \
	do { \
		if (!(ok)) \
			fail_msg("seed %llu, operation %d: does not hold: %s", \
					 (unsigned long long) seed, (r)->op, #ok); \
	} while (0)

static Told *
pick(Run *r)
{
	int			kept = r->ntold < TOLD ? r->ntold : TOLD;
	int			back;

	if (kept == 0)
		return NULL;
	/* mostly among the latest, which the row remembers */
	back = (int) draw(draw(4) ? (kept < 12 ? (uint64_t) kept : 12) : (uint64_t) kept);
	return &r->told[(r->ntold - 1 - back) % TOLD];
}

static const ScheduleEntry *
entry_of(const Schedule *s, int64_t ticket)
{
	for (int i = 0; i < s->un.nrecent; i++)
		if (entry_ticket(schedule_entry(s, i)) == ticket)
			return schedule_entry(s, i);
	return NULL;
}

/* a start is recorded now: an interval after the one before, and room in its window */
static void
note_start(Run *r, int64_t now, int64_t width, int32_t permits)
{
	const ScheduleConfig *cfg = &r->w.cfg;

	if (r->check_starts && r->last_start > 0)
		must(r, now >= r->last_start + r->last_width);
	r->last_start = now;
	r->last_width = width;

	if (cfg->quota > 0 && r->check_quota)
	{
		int64_t		into = (now - cfg->quota_origin_us) % cfg->quota_window_us;
		int64_t		from = now - (into < 0 ? into + cfg->quota_window_us : into);

		if (from != r->starts_from)
			r->starts = 0;
		r->starts_from = from;
		r->starts += permits;
		must(r, r->starts <= cfg->quota);
	}
}

/* I1: no slot comes nearer to another than the earlier one's width */
static void
check_apart(Run *r, int64_t slot, int64_t width)
{
	int			kept = r->ntold < TOLD ? r->ntold : TOLD;

	for (int i = 0; i < kept; i++)
	{
		const Told *t = &r->told[i];

		if (!t->live || t->moved)
			continue;
		if (t->slot <= slot)
			must(r, slot - t->slot >= t->width);
		else
			must(r, t->slot - slot >= width);
	}
}

static void
do_book(Run *r, bool appointment)
{
	World	   *w = &r->w;
	Schedule	before = w->row;
	int64_t		now = world_clock(w, r->at).wall;
	ScheduleRequest req = {
		.permits = draw(4) ? 1 : 1 + (int32_t) draw(3),
		.max_wait_us = draw(5) ? -1 : (int64_t) draw((uint64_t) w->cfg.interval_us * 6),
		.key = !appointment && !r->check_quota && draw(6) == 0 ? 1 + draw(5) : 0,
		.ticket = appointment ? 0 : r->next_ticket,
	};
	ScheduleBooking out;
	ScheduleAnswer answer;
	const ScheduleEntry *e;
	int64_t		width;

	if (appointment)
		req.permits = 1;
	width = w->cfg.interval_us * req.permits;
	answer = world_book(w, r->at, &req, &out, r->op);
	if (answer != SCHEDULE_OK)
	{
		must(r, memcmp(&before, &w->row, sizeof(before)) == 0);
		must(r, answer != SCHEDULE_TOO_LONG || out.slot > now);
		must(r, answer != SCHEDULE_FULL || out.slot > now);
		return;
	}
	must(r, out.slot >= now);
	must(r, appointment || out.started == (out.slot == now));
	if (out.ticket != req.ticket)
	{
		/* its key was found; a recorded start is one of its booking */
		must(r, req.key != 0);
		for (int i = 0; i < TOLD; i++)
			if (r->told[i].ticket == out.ticket)
			{
				Told	   *t = &r->told[i];
				int64_t		wide = w->cfg.interval_us * t->permits;

				if (out.slot != t->slot)
					t->moved = true;
				/* an immediate one whose start has to be taken again */
				t->live |= !out.started;
				t->started = out.started;
				if (out.started)
					note_start(r, now, t->width > wide ? t->width : wide, t->permits);
			}
		return;
	}
	must(r, req.max_wait_us < 0 || out.slot - now <= req.max_wait_us);

	r->next_ticket++;
	e = appointment ? NULL : entry_of(&w->row, out.ticket);
	if (e != NULL)
	{
		/* a hole may be wider */
		width = e->width;
		must(r, width >= w->cfg.interval_us * req.permits);
	}
	r->told[r->ntold % TOLD] = (Told) {
		.ticket = out.ticket,.slot = out.slot,.width = width,.permits = req.permits,
		.live = false,
	};
	if (r->check_slots)
		check_apart(r, out.slot, w->cfg.interval_us * req.permits);
	r->told[r->ntold % TOLD].started = out.started;
	r->told[r->ntold++ % TOLD].live = true;
	if (out.started)
		note_start(r, now, width, req.permits);
}

static void
do_release(Run *r)
{
	World	   *w = &r->w;
	Told	   *t = pick(r);
	int64_t		ticket = t != NULL && draw(20) ? t->ticket : (int64_t) draw(1000000000);
	Schedule	s = w->row;
	ScheduleClock clk = world_clock(w, r->at);
	int64_t		head;

	schedule_enter(&s, &w->cfg, &clk, w->run);
	head = s.un.next_request_at;
	if (schedule_release(&s, &w->cfg, clk.wall, ticket) != RELEASE_RELEASED)
		return;
	must(r, s.un.next_request_at <= head);
	must(r, t != NULL && ticket == t->ticket);
	must(r, t->live && (t->slot > clk.wall || t->moved));
	t->live = false;
	world_keep(w, &s, &clk, r->op);
}

static void
do_confirm(Run *r)
{
	World	   *w = &r->w;
	Told	   *t = pick(r);
	Schedule	s = w->row;
	ScheduleClock clk = world_clock(w, r->at);
	const ScheduleEntry *e;
	int64_t		wait;
	int64_t		width;
	bool		running;

	if (t == NULL || !t->live || (t->ticket == 0 && r->check_quota))
		return;
	schedule_enter(&s, &w->cfg, &clk, w->run);
	e = entry_of(&s, t->ticket);
	/* asked about after it was forgotten, it would count as another start */
	if (e == NULL && t->started)
		return;
	running = e != NULL && (entry_state(e) == ENTRY_STARTED || entry_state(e) == ENTRY_IMMEDIATE);
	width = w->cfg.interval_us * (e != NULL ? entry_permits(e) : 1);
	if (e != NULL && e->width > width)
		width = e->width;
	must(r, schedule_confirm(&s, &w->cfg, clk.wall, t->ticket, t->slot, &wait) == SCHEDULE_OK);
	world_keep(w, &s, &clk, r->op);

	must(r, wait >= 0);
	if (e == NULL || t->slot <= clk.wall)
		t->moved |= wait > 0;
	if (wait == 0 && !running)
		note_start(r, clk.wall, width, e != NULL ? entry_permits(e) : 1);
	if (wait == 0)
		t->live = false;
}

static void
do_other(Run *r)
{
	World	   *w = &r->w;
	int64_t		I = w->cfg.interval_us;
	Schedule	s = w->row;
	ScheduleClock clk = world_clock(w, r->at);
	int64_t		to = clk.wall + (int64_t) draw((uint64_t) I * 20) - I * 5;
	ScheduleAnswer answer;

	schedule_enter(&s, &w->cfg, &clk, w->run);
	switch (draw(4))
	{
		case 0:
			answer = schedule_pause(&s, &w->cfg, clk.wall, draw(10) ? to : SCHEDULE_FOREVER);
			must(r, answer == SCHEDULE_OK);
			must(r, s.un.next_request_at >= w->row.un.next_request_at || s.must_log);
			break;
		case 1:
			schedule_resume(&s);
			break;
		case 2:
			schedule_advance(&s, to);
			must(r, s.un.next_request_at >= to);
			break;
		case 3:
			schedule_rewind(&s, to);
			must(r, s.un.next_request_at <= to && s.un.nrecent == 0);
			break;
	}
	world_keep(w, &s, &clk, r->op);
}

/* head and starts lie behind every booking that the row remembers */
static void
check_head(Run *r)
{
	const Schedule *s = &r->w.row;

	for (int i = 0; i < s->un.nrecent; i++)
	{
		const ScheduleEntry *e = schedule_entry(s, i);

		if (entry_state(e) != ENTRY_HELD)
			continue;
		if (e->word & ENTRY_IS_ASSIGNED)
			must(r, s->un.next_start >= e->slot);
		else
			must(r, s->un.next_request_at >= e->slot + e->width);
	}
}

static void
change_config(ScheduleConfig *cfg)
{
	cfg->interval_us = 1 + (int64_t) draw(draw(2) ? 1000 : 3000000);
	cfg->burst = 1 + (int32_t) draw(5);
	cfg->max_waiting = (int32_t) draw(20) - 1;
	cfg->max_wait_us = draw(3) ? -1 : (int64_t) draw(20000000);
	cfg->quota = draw(3) ? 0 : 3 + (int32_t) draw(10);
	cfg->quota_window_us = 1 + (int64_t) draw(10) * cfg->interval_us * 5;
	cfg->quota_origin_us = (int64_t) draw(1000000000);
}

typedef struct Kind
{
	int32_t		burst;
	int32_t		quota;			/* in 20 intervals */
	bool		anything;		/* pauses, clock steps, changes of the configuration */
} Kind;

static void
run_random(const Kind *kind, int ops)
{
	static Run	r;
	ScheduleConfig cfg = plain;

	memset(&r, 0, sizeof(r));
	cfg.interval_us = 1 + (int64_t) draw(3000000);
	cfg.reserve_ahead_us = (int64_t) draw(4) * 1000000;
	cfg.burst = kind->burst;
	cfg.max_waiting = draw(2) ? 60 : -1;
	cfg.quota = kind->quota;
	cfg.quota_window_us = cfg.interval_us * 20;
	r.check_slots = !kind->anything && kind->burst == 1;
	r.check_starts = !kind->anything && kind->burst == 1;
	r.check_quota = !kind->anything && kind->quota > 0;
	world_init(&r.w, &cfg, 4 + (int32_t) draw(kind->anything ? 60 : 28));
	r.next_ticket = 1;

	for (r.op = 0; r.op < ops; r.op++)
	{
		uint64_t	verb = draw(100);

		/* bursts of calls, then a stride */
		if (draw(3) == 0)
			r.at += (int64_t) draw((uint64_t) r.w.cfg.interval_us * (draw(20) ? 3 : 60));
		if (verb < 40)
			do_book(&r, false);
		else if (verb < 48)
			do_book(&r, true);
		else if (verb < 68)
			do_release(&r);
		else if (verb < 95)
			do_confirm(&r);
		else if (verb < 97)
			world_crash(&r.w, draw(2));
		else if (!kind->anything)
			continue;
		else if (verb < 98)
			do_other(&r);
		else if (verb < 99)
			r.w.wall_off += (int64_t) draw(200000000) - 100000000;
		else
			change_config(&r.w.cfg);
		/* told before a rewind, a clock step or the like: not comparable any more */
		if (kind->anything && verb >= 97)
			r.ntold = 0;
		if (r.w.row.logged.run == r.w.run)
		{
			check_state(&r.w, r.op);
			check_head(&r);
		}
	}
}

static void
holds_for_any_sequence(void **state)
{
	static const Kind kinds[] = {
		{1, 0, false}, {1, 7, false}, {3, 0, false}, {4, 6, false}, {1, 0, true}, {3, 4, true},
	};
	int			ops = getenv("PACER_OPS") ? atoi(getenv("PACER_OPS")) : 100000;
	int			rounds = 60;

	for (int i = 0; i < rounds; i++)
		run_random(&kinds[i % lengthof(kinds)], ops / rounds + 1);
	(void) state;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(holds_for_any_sequence)};

	seed = getenv("PACER_SEED") ? strtoull(getenv("PACER_SEED"), NULL, 0) :
		(uint64_t) time(NULL) * 1000003 + (uint64_t) getpid();
	rng = seed;
	printf("PACER_SEED=%llu\n", (unsigned long long) seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
