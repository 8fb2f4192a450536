/*
 * test_schedule.c - the arithmetic, told as stories with fixed instants
 *
 * See story.h for the language.  Every expected number can be worked out by
 * hand from ext/README.md, "The schedule: rules of the arithmetic".
 */
#include "story.h"

/*
 * ----------------------------------------------------------------
 *		Booking
 * ----------------------------------------------------------------
 */

static void
slots_lie_an_interval_apart(void **state)
{
	STORY(plain, 32,
		  see(0, HEAD, -T0),
		  book(0, 1, 0),
		  book(0, 2, S(10)),
		  book(S(3), 3, S(20)),
		  see(S(3), HEAD, S(30)),
		  see(S(3), BOOKED, 3),
		  /* the head itself is free, one microsecond before it is not */
		  book(S(30), 4, S(30)),
		  book(S(40) - 1, 5, S(40)));
	(void) state;
}

/* A07: whoever idles does not save anything up */
static void
idling_builds_up_no_credit(void **state)
{
	STORY(plain, 32,
		  book(0, 1, 0),
		  book(S(3600), 2, S(3600)),
		  book(S(3600), 3, S(3610)),
		  book(S(3600), 4, S(3620)));
	(void) state;
}

static void
burst_lets_so_many_come_at_once(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.burst = 3;
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, 0), book(0, 3, 0),
		  book(0, 4, S(10)),
		  book(0, 5, S(20)),
		  /* credit comes back at the pace of the interval, and no further */
		  book(S(60) - 1, 6, S(60) - 1),
		  book(S(1000), 7, S(1000)), book(S(1000), 8, S(1000)), book(S(1000), 9, S(1000)),
		  book(S(1000), 10, S(1010)),
		  /* a larger burst takes effect at once, a smaller one moves nobody */
		  change(burst, 5),
		  book(S(1000), 11, S(1000)),
		  book(S(1000), 12, S(1010)),
		  change(burst, 1),
		  book(S(1000), 13, S(1060)),
		  see(S(1000), HEAD, S(1070)));
	(void) state;
}

static void
permits_take_as_many_intervals(void **state)
{
	STORY(plain, 32,
		  book(0, 1, 0, .permits = 3),
		  book(0, 2, S(30)),
		  book(0, 3, S(40), .permits = 2),
		  book(0, 4, S(60)));
	(void) state;
}

static void
bounds_of_the_wait(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.max_wait_us = S(25);
	STORY(cfg, 32,
		  book(0, 1, 0, within(0)),
		  refuse(0, SCHEDULE_TOO_LONG, S(10), within(0)),
		  refuse(0, SCHEDULE_TOO_LONG, S(10), within(S(10) - 1)),
		  book(0, 2, S(10), within(S(10))),
		  book(0, 3, S(20)),
		  /* the source's own bound holds for a patient caller too */
		  refuse(0, SCHEDULE_TOO_LONG, S(30)),
		  refuse(0, SCHEDULE_TOO_LONG, S(30), within(S(1000))),
		  book(S(5), 4, S(30), within(S(25))),
		  change(max_wait_us, -1),
		  book(S(5), 5, S(40)),
		  see(S(5), BOOKED, 5));
	(void) state;
}

static void
bounds_of_the_line(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.max_waiting = 2;
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(10)), book(0, 3, S(20)),
		  see(0, WAITING, 2),
		  refuse(0, SCHEDULE_FULL, S(30)),
		  /* an appointment is not a caller */
		  appoint(0, S(30)),
		  see(0, WAITING, 2),
		  /* the slot of 2 has come: whether or not it starts, it waits no more */
		  see(S(10), WAITING, 1),
		  book(S(10), 4, S(40)),
		  refuse(S(10), SCHEDULE_FULL, S(50)),
		  release(S(11), 4, RELEASE_RELEASED),
		  see(S(11), WAITING, 1),
		  book(S(11), 5, S(40)),
		  /* none may wait: only what can start at once is booked */
		  change(max_waiting, 0),
		  refuse(S(30), SCHEDULE_FULL, S(50)),
		  book(S(50), 6, S(50)),
		  refuse(S(50), SCHEDULE_FULL, S(60)),
		  change(max_waiting, -1),
		  book(S(50), 7, S(60)));
	(void) state;
}

/* A14: a new rate moves nobody and is no reason to think that more are waiting */
static void
interval_changed_while_callers_wait(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = S(3600);
	cfg.max_waiting = 10;
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(3600)),
		  see(0, HEAD, S(7200)),
		  change(interval_us, S(1)),
		  see(0, WAITING, 1),
		  book(0, 3, S(7200)),
		  see(0, HEAD, S(7201)),
		  release(0, 3, RELEASE_RELEASED),
		  see(0, HEAD, S(7200)),
		  /* a refund is what that booking took */
		  release(0, 2, RELEASE_RELEASED),
		  see(0, HEAD, S(3600)),
		  change(interval_us, S(86400)),
		  book(0, 4, S(3600)),
		  see(0, HEAD, S(90000)));
	(void) state;
}

/*
 * ----------------------------------------------------------------
 *		Release
 * ----------------------------------------------------------------
 */

static void
release_of_the_last_gives_its_time_back(void **state)
{
	STORY(plain, 32,
		  book(0, 1, 0), book(0, 2, S(10)), book(0, 3, S(20)), book(0, 4, S(30)),
		  release(1, 4, RELEASE_RELEASED),
		  see(1, HEAD, S(30)),
		  release(1, 4, RELEASE_UNKNOWN),
		  see(1, HEAD, S(30)),
		  /* 2 is in the middle; with 3 the row goes back over it */
		  release(1, 2, RELEASE_RELEASED),
		  see(1, HEAD, S(30)),
		  release(1, 3, RELEASE_RELEASED),
		  see(1, HEAD, S(10)),
		  release(1, 2, RELEASE_UNKNOWN),
		  release(1, 3, RELEASE_UNKNOWN),
		  book(1, 5, S(10)),
		  book(1, 6, S(20)));
	(void) state;
}

/* A02: what is given back in the middle is that slot, and nobody else's */
static void
release_in_the_middle_leaves_a_hole(void **state)
{
	STORY(plain, 32,
		  book(0, 1, 0), book(0, 2, S(10)), book(0, 3, S(20)), book(0, 4, S(30)),
		  release(1, 2, RELEASE_RELEASED),
		  see(1, HEAD, S(40)),
		  see(1, WAITING, 2),
		  book(1, 5, S(10)),
		  release(1, 2, RELEASE_UNKNOWN),
		  not_held(1, 2),
		  book(1, 6, S(40)),
		  /* it may be given back again, and be the last thing before a tail that goes back */
		  release(1, 5, RELEASE_RELEASED),
		  release(1, 6, RELEASE_RELEASED),
		  release(1, 4, RELEASE_RELEASED),
		  see(1, HEAD, S(30)),
		  release(1, 3, RELEASE_RELEASED),
		  see(1, HEAD, S(10)));
	(void) state;
}

/* A03: too late, twice, of another's, of nobody's */
static void
release_tells_the_truth(void **state)
{
	STORY(plain, 32,
		  release(0, 1, RELEASE_UNKNOWN),
		  book(0, 1, 0), book(0, 2, S(10)), book(0, 3, S(20)),
		  release(0, 1, RELEASE_STARTED),
		  release(0, 0, RELEASE_UNKNOWN),
		  release(0, -2, RELEASE_UNKNOWN),
		  release(0, ENTRY_TICKET_MASK + 3, RELEASE_UNKNOWN),
		  release(0, INT64_MIN, RELEASE_UNKNOWN),
		  release(0, INT64_MAX, RELEASE_UNKNOWN),
		  see(0, HEAD, S(30)),
		  release(S(10), 2, RELEASE_PASSED),
		  release(S(20) - 1, 3, RELEASE_RELEASED),
		  see(S(20), HEAD, S(20)),
		  confirm(S(20), 2, 0),
		  release(S(20), 2, RELEASE_STARTED),
		  see(S(20), HEAD, S(30)));
	(void) state;
}

static void
holes_and_what_fits_them(void **state)
{
	STORY(plain, 32,
		  book(0, 1, 0),
		  book(0, 2, S(10)),
		  book(0, 3, S(20), .permits = 3),
		  book(0, 4, S(50)),
		  book(0, 5, S(60)),
		  release(0, 3, RELEASE_RELEASED),
		  release(0, 2, RELEASE_RELEASED),
		  /* too wide for the first, too wide for both */
		  book(0, 6, S(20), .permits = 2),
		  book(0, 7, S(70), .permits = 4),
		  /* what was left of the wide one is 6's until 6 gives it back */
		  release(0, 6, RELEASE_RELEASED),
		  book(0, 8, S(10)),
		  /* the front of the wide one, of which nothing remains */
		  book(0, 9, S(20)),
		  book(0, 10, S(110)),
		  /* not one microsecond before a hole's time, nor at it */
		  release(0, 8, RELEASE_RELEASED),
		  book(S(10), 11, S(120)),
		  release(S(10), 4, RELEASE_RELEASED),
		  book(S(50) - 1, 12, S(50), within(1)),
		  /* the bound of the line is for holes as well */
		  release(S(50) - 1, 5, RELEASE_RELEASED),
		  change(max_waiting, 4),
		  see(S(51), WAITING, 3),
		  book(S(51), 13, S(60)),
		  see(S(51), WAITING, 4),
		  refuse(S(51), SCHEDULE_FULL, S(130)));
	(void) state;
}

static void
appointments_are_not_remembered(void **state)
{
	STORY(plain, 32,
		  appoint(0, 0),
		  appoint(0, S(10)),
		  see(0, NRECENT, 0),
		  see(0, WAITING, 0),
		  see(0, BOOKED, 2),
		  book(0, 1, S(20)),
		  appoint(0, S(30)),
		  /* 1 is not the last thing on the schedule: a hole, then an appointment's */
		  release(0, 1, RELEASE_RELEASED),
		  see(0, HEAD, S(40)),
		  appoint(0, S(20)),
		  book(0, 2, S(40)),
		  /* and what lies between 2 and the rest is nobody's to give back */
		  release(0, 2, RELEASE_RELEASED),
		  see(0, HEAD, S(40)),
		  book(0, 3, S(40)), book(0, 4, S(50)),
		  release(0, 3, RELEASE_RELEASED),
		  release(0, 4, RELEASE_RELEASED),
		  see(0, HEAD, S(40)));
	(void) state;
}

/* a hole that an appointment took is not one any more when the tail goes back */
static void
tail_stops_at_an_appointment(void **state)
{
	STORY(plain, 32,
		  book(0, 1, 0), book(0, 2, S(10)), book(0, 3, S(20)), book(0, 4, S(30)),
		  release(0, 3, RELEASE_RELEASED),
		  appoint(0, S(20)),
		  release(0, 2, RELEASE_RELEASED),
		  release(0, 4, RELEASE_RELEASED),
		  see(0, HEAD, S(30)),
		  book(0, 5, S(10)),
		  book(0, 6, S(30)));
	/* the same with one that the row forgot */
	STORY(plain, 4,
		  book(0, 1, 0), book(0, 2, S(10)), book(0, 3, S(20)), book(0, 4, S(30)), book(0, 5, S(40)),
		  book(0, 6, S(50)),
		  release(0, 3, RELEASE_RELEASED),
		  release(0, 4, RELEASE_RELEASED),
		  release(0, 5, RELEASE_RELEASED),
		  release(0, 6, RELEASE_RELEASED),
		  see(0, HEAD, S(20)));
	(void) state;
}

/* what cannot be asked for twice: the earlier caller's hole behind a longer wait */
static void
hole_reached_where_the_tail_is_not(void **state)
{
	STORY(plain, 32,
		  book(0, 1, 0), book(0, 2, S(10)), book(0, 3, S(20)),
		  release(0, 2, RELEASE_RELEASED),
		  refuse(0, SCHEDULE_TOO_LONG, S(30), within(S(29)), .permits = 2),
		  book(0, 4, S(10), within(S(10))),
		  refuse(0, SCHEDULE_TOO_LONG, S(30), within(S(29))));
	(void) state;
}

/*
 * ----------------------------------------------------------------
 *		The row is full
 * ----------------------------------------------------------------
 */

static void
older_bookings_are_counted_on(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.max_waiting = 7;
	STORY(cfg, 4,
		  book(0, 1, 0), book(0, 2, S(10)), book(0, 3, S(20)), book(0, 4, S(30)),
		  /* the started one goes first */
		  book(0, 5, S(40)),
		  release(0, 1, RELEASE_UNKNOWN),
		  see(0, WAITING, 4),
		  /* then the oldest that is held */
		  book(0, 6, S(50)), book(0, 7, S(60)),
		  see(0, NRECENT, 4),
		  see(0, WAITING, 6),
		  release(0, 2, RELEASE_UNKNOWN),
		  see(0, WAITING, 6),
		  /* A14 again: the older ones are a number, not a time over a rate */
		  change(interval_us, MS(1)),
		  see(0, WAITING, 6),
		  change(interval_us, S(10)),
		  book(0, 8, S(70)),
		  refuse(0, SCHEDULE_FULL, S(80)),
		  see(S(10), WAITING, 6),
		  see(S(20), WAITING, 5),
		  see(S(30), WAITING, 4),
		  see(S(60), WAITING, 1),
		  see(S(70), WAITING, 0),
		  /* one that is forgotten is judged by the slot it was told */
		  confirm_at(S(5), 2, S(10), S(5)),
		  confirm_at(S(10), 2, S(10), 0));
	(void) state;
}

/* the estimate follows a change of pace: it is taken anew when half of it is past */
static void
older_bookings_are_counted_anew(void **state)
{
	STORY(plain, 4,
		  book(0, 1, 0), book(0, 2, S(10)), book(0, 3, S(20)), book(0, 4, S(30)), book(0, 5, S(40)),
		  book(0, 6, S(50)), book(0, 7, S(60)), book(0, 8, S(70)),
		  see(0, WAITING, 7),
		  see(S(20), WAITING, 5),
		  book(S(20), 9, S(80)),
		  see(S(20), WAITING, 6));
	(void) state;
}

static void
a_long_line_behind_a_small_row(void **state)
{
	ScheduleConfig cfg = plain;
	World		w;

	cfg.interval_us = S(1);
	cfg.max_waiting = -1;
	world_init(&w, &cfg, 4);
	for (int i = 0; i < 1000; i++)
	{
		ScheduleRequest req = {.permits = 1,.max_wait_us = -1,.ticket = i + 1};
		ScheduleBooking out;

		assert_int_equal(world_book(&w, 0, &req, &out, __LINE__), SCHEDULE_OK);
		assert_int_equal(out.slot, T0 + S(i));
		check_state(&w, __LINE__);
	}
	assert_int_equal(look(&w, WAITING, 0), 999);
	/* an estimate from here on; never more than there are, and it comes down to the exact number */
	for (int at = 1; at < 996; at++)
	{
		int64_t		waiting = look(&w, WAITING, S(at));

		assert_true(waiting >= 4 && waiting <= 999);
		assert_true(waiting >= 998 - at && waiting <= 1000 - at);
	}
	assert_int_equal(look(&w, WAITING, S(996)), 3);

	/* every caller wakes at its slot and confirms: nobody is refused or told to wait */
	for (int i = 1; i < 1000; i++)
	{
		Step		st = confirm_at(S(i), i + 1, S(i), 0);

		run_step(&w, &st);
	}
	(void) state;
}

/* what was released, and what the row did not see, when there is no room to remember it */
static void
full_row_and_holes(void **state)
{
	STORY(plain, 4,
		  book(0, 1, 0), book(0, 2, S(10)), book(0, 3, S(20)), book(0, 4, S(30)),
		  book(0, 5, S(40)),
		  release(0, 3, RELEASE_RELEASED),
		  /* a hole ahead is kept while something else can go */
		  book(S(10), 6, S(20)),
		  /* the old ticket had no room: it is not known any more, rather than known as released */
		  see(S(10), NRECENT, 4),
		  book(S(10), 7, S(50)),
		  /* everything in the row is ahead now */
		  release(S(10), 4, RELEASE_RELEASED),
		  see(S(10), WAITING, 3),
		  book(S(10), 8, S(30)),
		  see(S(10), WAITING, 4));
	(void) state;
}

static void
tickets_stay_unique(void **state)
{
	STORY(plain, 32,
		  book(0, 7, 0),
		  book(0, 7, S(10), .want_ticket = 8),
		  book(0, 7, S(20), .want_ticket = 9),
		  release(0, 8, RELEASE_RELEASED),
		  /* a released ticket stays known, so it is not given again either */
		  book(0, 8, S(10), .want_ticket = 10),
		  book(0, ENTRY_TICKET_MASK, S(30)),
		  book(0, ENTRY_TICKET_MASK, S(40), .want_ticket = 1));
	(void) state;
}

/*
 * ----------------------------------------------------------------
 *		Crash
 * ----------------------------------------------------------------
 */

static void
crash_sells_no_slot_twice(void **state)
{
	STORY(plain, 32,
		  book(0, 1, 0), book(0, 2, S(10)), book(0, 3, S(20)),
		  see(0, RESERVED, S(30)),
		  crash(),
		  see(0, HEAD, S(30)),
		  see(0, WAITING, 0),
		  see(0, BOOKED, 0),
		  book(0, 4, S(30)),
		  /* tickets from before are not known, their holders are not sent away */
		  release(0, 3, RELEASE_UNKNOWN),
		  confirm_at(S(10), 2, S(10), 0),
		  confirm_at(S(20), 3, S(20), 0));
	(void) state;
}

/* fast pace: the mark runs ahead of the head, a crash costs no more than that */
static void
crash_costs_at_most_the_reserve(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = MS(100);
	STORY(cfg, 32,
		  book(0, 1, 0),
		  see(0, RESERVED, MS(1100)),
		  book(0, 2, MS(100)),
		  see(0, RESERVED, MS(1100)),
		  crash(),
		  book(MS(50), 3, MS(1100)),
		  see(MS(50), RESERVED, MS(2200)),
		  crash(),
		  /* an idle source has lost nothing */
		  book(S(60), 4, S(60)),
		  /* slower than the reserve: logged at each booking, nothing is lost */
		  change(interval_us, S(1)),
		  book(S(60), 5, S(60) + MS(100)),
		  see(S(60), RESERVED, S(61) + MS(100)),
		  crash(),
		  book(S(60), 6, S(61) + MS(100)));
	(void) state;
}

/* half of the reserve is used up: raised before an answer depends on it */
static void
mark_is_raised_ahead_of_need(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = MS(100);
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, MS(100), .permits = 5),
		  see(0, RESERVED, MS(1100)),
		  book(0, 3, MS(600)),
		  see(0, RESERVED, MS(1700)), see(0, PROVED, MS(1100)),
		  book(0, 4, MS(700), .permits = 4),
		  /* all of it is proved by the first record */
		  crash_unflushed(),
		  see(0, HEAD, MS(1100)),
		  book(0, 5, MS(1100), .permits = 6),
		  see(0, RESERVED, MS(2700)), see(0, PROVED, -T0),
		  book(0, 6, MS(1700), .permits = 6),
		  see(0, RESERVED, MS(3300)), see(0, PROVED, MS(2700)),
		  /* beyond it the second is needed */
		  book(0, 7, MS(2300), .permits = 6),
		  see(0, RESERVED, MS(3900)),
		  crash_unflushed(),
		  see(0, HEAD, MS(3300)));
	(void) state;
}

/* what is logged for another reason may not be missing from an answer's proof */
static void
only_a_raised_mark_can_wait(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = MS(100);
	STORY(cfg, 32,
		  /* not even of a source that was never booked */
		  pause_until(0, MS(1)),
		  crash_unflushed(),
		  see(0, PAUSED_UNTIL, MS(1)),
		  book(MS(1), 1, MS(1), .permits = 2), book(MS(1), 2, MS(201), .permits = 6),
		  see(MS(1), RESERVED, MS(1801)), see(MS(1), PROVED, MS(1201)),
		  pause_until(MS(1), MS(300)),
		  see(MS(1), PROVED, -T0),
		  crash_unflushed(),
		  see(MS(1), PAUSED_UNTIL, MS(300)),
		  /* a quota has a mark of its own */
		  book(S(10), 3, S(10)),
		  change(quota, 100), change(quota_window_us, S(60)),
		  book(S(10), 4, S(10) + MS(100), .permits = 8),
		  book(S(10), 5, S(10) + MS(900), .permits = 6),
		  see(S(10), RESERVED, S(11) + MS(900)), see(S(10), PROVED, -T0),
		  crash_unflushed(),
		  see(S(10), QUOTA_LEFT, 81));
	(void) state;
}

/* what a release gave back may be sold again after a crash, what it did not may not */
static void
crash_after_a_release(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = S(1);
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(1)), book(0, 3, S(2)), book(0, 4, S(3)),
		  release(0, 4, RELEASE_RELEASED),
		  see(0, HEAD, S(3)),
		  /* as much as reserve_ahead is not worth a record */
		  see(0, RESERVED, S(4)),
		  release(0, 3, RELEASE_RELEASED),
		  see(0, HEAD, S(2)),
		  see(0, RESERVED, S(2)),
		  crash(),
		  book(0, 5, S(2)));
	(void) state;
}

/* P5: a late start that was confirmed is as durable as a slot that was told */
static void
crash_after_a_late_start(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = S(1);
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(1)),
		  see(0, HEAD, S(2)),
		  confirm(S(5), 2, 0),
		  see(S(5), HEAD, S(6)),
		  see(S(5), RESERVED, S(6)),
		  crash(),
		  book(S(5) + MS(200), 3, S(6)));
	(void) state;
}

/* the first caller after a crash is one that holds a slot from before, far ahead of the others */
static void
crash_and_those_who_wait(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = S(1);
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(1)), book(0, 3, S(2)), book(0, 4, S(3)),
		  crash(),
		  /* a start up to just before the crash may have been the last one: an interval from here */
		  confirm_at(S(1), 2, S(1), S(1)),
		  confirm_at(S(2), 2, S(1), 0),
		  confirm_at(S(2), 3, S(2), S(1)),
		  confirm_at(S(3), 3, S(2), 0),
		  confirm_at(S(4), 4, S(3), 0),
		  /* booked behind all that: the head had been 4 */
		  book(S(4), 5, S(5)));
	(void) state;
}

/* how far a start reaches is in the log, whatever width it had */
static void
crash_and_wide_starts(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = S(1);
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(1)), book(0, 3, S(2)),
		  change(interval_us, S(10)),
		  confirm(S(1), 2, 0),
		  crash(),
		  confirm_at(S(2), 3, S(2), S(9)));
	STORY(plain, 32,
		  confirm(0, 900, 0),
		  crash(),
		  confirm_at(S(1), 901, S(1), S(9)));
	(void) state;
}

static void
crash_keeps_pause_and_quota(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = S(1);
	cfg.quota = 2;
	cfg.quota_window_us = S(60);
	STORY(cfg, 32,
		  book(0, 1, 0),
		  crash(),
		  book(0, 2, S(1)),
		  crash(),
		  book(0, 3, S(60)),
		  crash(),
		  book(0, 4, S(61)),
		  pause_until(S(62), S(70)),
		  crash(),
		  book(S(62), 5, S(120)),
		  pause_until(S(62), FOREVER),
		  crash(),
		  refuse(S(63), SCHEDULE_PAUSED, FOREVER),
		  resume(S(64)),
		  crash(),
		  book(S(64), 6, S(121)));
	(void) state;
}

/* the counts run ahead in the log as well: too much may be counted, too little not */
static void
crash_counts_the_quota_high(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = MS(100);
	cfg.quota = 5;
	cfg.quota_window_us = S(60);
	STORY(cfg, 32,
		  book(0, 1, 0),
		  see(0, QUOTA_LEFT, 4),
		  crash(),
		  see(0, QUOTA_LEFT, 0),
		  book(0, 2, S(60)),
		  book(0, 3, S(60) + MS(100)),
		  see(0, QUOTA_LEFT, 3));
	(void) state;
}

/* set back across a crash: what the earlier window holds is known to nobody, so it is full */
static void
crash_and_an_earlier_window(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = S(1);
	cfg.quota = 2;
	cfg.quota_window_us = S(60);
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(1)), book(0, 3, S(60)),
		  step_clock(-S(60)),
		  crash(),
		  book(S(2), 4, S(60)));
	(void) state;
}

/*
 * ----------------------------------------------------------------
 *		Clocks
 * ----------------------------------------------------------------
 */

static void
clock_set_forward(void **state)
{
	STORY(plain, 32,
		  book(0, 1, 0), book(0, 2, S(10)), book(0, 3, S(20)),
		  step_clock(S(3600)),
		  see(S(5), WAITING, 2),
		  /* who waits counts elapsed time: 2 starts at 10, which is now called an hour later */
		  book(S(5), 4, S(3630)),
		  see(S(5), RESERVED, S(3640)),
		  see(S(5), LAST_START, S(3600)),
		  release(S(5), 3, RELEASE_RELEASED),
		  book(S(5), 5, S(3620)),
		  confirm(S(10), 2, 0));
	/* those that the row forgot wait as long as the others */
	STORY(plain, 4,
		  book(0, 1, 0), book(0, 2, S(10)), book(0, 3, S(20)), book(0, 4, S(30)), book(0, 5, S(40)),
		  book(0, 6, S(50)), book(0, 7, S(60)),
		  step_clock(S(3600)),
		  see(0, WAITING, 6),
		  see(S(10), WAITING, 5),
		  see(S(20), WAITING, 4));
	(void) state;
}

static void
clock_set_back(void **state)
{
	STORY(plain, 32,
		  book(0, 1, 0), book(0, 2, S(10)), book(0, 3, S(20)),
		  step_clock(-S(3600)),
		  see(S(5), WAITING, 2),
		  /* neither an hour of standstill nor a burst */
		  book(S(5), 4, S(30) - S(3600)),
		  see(S(5), RESERVED, S(40) - S(3600)),
		  crash(),
		  book(S(5), 5, S(40) - S(3600)),
		  confirm_at(S(10), 2, S(10) - S(3600), S(5)));
	(void) state;
}

static void
clock_steps_below_the_tolerance(void **state)
{
	STORY(plain, 32,
		  book(0, 1, 0),
		  step_clock(MS(10)),
		  book(1, 2, S(10)),
		  step_clock(-MS(20)),
		  book(2, 3, S(20)),
		  /* they add up: it is the pair that was kept that is compared with */
		  step_clock(-1),
		  book(3, 4, S(30) - MS(10) - 1),
		  /* and from here the new pair */
		  step_clock(MS(10)),
		  book(4, 5, S(40) - MS(10) - 1));
	(void) state;
}

static void
clock_of_another_kernel(void **state)
{
	STORY(plain, 32,
		  book(0, 1, 0), book(0, 2, S(10)),
		  new_kernel(),
		  /* forward cannot be told from time that went by */
		  step_clock(S(100)),
		  book(S(5), 3, S(105)),
		  new_kernel(),
		  /* back can: now is 45, the last that was seen is 105 */
		  step_clock(-S(65)),
		  book(S(10), 4, S(115) - S(60)),
		  see(S(10), HEAD, S(65)));
	(void) state;
}

/* P6: a reboot starts the elapsed time anew; that is no step of thirty days */
static void
clock_after_a_reboot(void **state)
{
	World		w;
	Step		before[] = {book(S(86400), 1, S(86400)), book(S(86400), 2, S(86410))};
	ScheduleClock clk = {.wall = T0 + S(86400) + S(2),.mono = S(3),.kernel = 43};
	ScheduleRequest req = {.permits = 1,.max_wait_us = -1,.ticket = 3};
	ScheduleBooking out;

	for (int same_kernel = 0; same_kernel < 2; same_kernel++)
	{
		world_init(&w, &plain, 32);
		run_step(&w, &before[0]);
		run_step(&w, &before[1]);
		clk.kernel = same_kernel ? 42 : 43;
		schedule_enter(&w.row, &plain, &clk, w.run);
		assert_int_equal(schedule_book(&w.row, &plain, clk.wall, &req, &out), SCHEDULE_OK);
		assert_int_equal(out.slot, T0 + S(86420));
	}
	(void) state;
}

/* no kernel has an identity of 0: there nothing is compared but what goes back */
static void
clock_without_an_identity(void **state)
{
	World		w;
	Step		st = book(0, 1, 0);
	ScheduleClock clk = {.wall = T0 + S(1000),.mono = MONO0 + S(1)};
	ScheduleRequest req = {.permits = 1,.max_wait_us = -1,.ticket = 2};
	ScheduleBooking out;

	world_init(&w, &plain, 32);
	w.kernel = 0;
	run_step(&w, &st);
	schedule_enter(&w.row, &plain, &clk, w.run);
	assert_int_equal(schedule_book(&w.row, &plain, clk.wall, &req, &out), SCHEDULE_OK);
	assert_int_equal(out.slot, T0 + S(1000));
	clk.wall = T0 + S(900);
	schedule_enter(&w.row, &plain, &clk, w.run);
	req.ticket = 3;
	assert_int_equal(schedule_book(&w.row, &plain, clk.wall, &req, &out), SCHEDULE_OK);
	assert_int_equal(out.slot, T0 + S(910));
	(void) state;
}

/* P7: two readings that are not of one instant prove nothing, this time */
static void
clock_that_cannot_be_compared(void **state)
{
	STORY(plain, 32,
		  book(0, 1, 0), book(0, 2, S(10)),
		  step_clock(-S(100)),
		  blind(true),
		  book(S(1), 3, S(20)),
		  blind(false),
		  book(S(2), 4, S(30) - S(100)),
		  /* the same on the way forward */
		  step_clock(S(100)),
		  blind(true),
		  book(S(3), 5, S(40) - S(100) + S(63)),
		  blind(false),
		  book(S(3), 6, S(113)));
	(void) state;
}

/* P8: after a crash only a clock behind the last record shows that it was set back */
static void
clock_set_back_over_a_crash(void **state)
{
	STORY(plain, 32,
		  book(0, 1, 0), book(0, 2, S(10)),
		  see(0, RESERVED, S(20)),
		  crash(),
		  step_clock(-S(3600)),
		  /* 5 s went by, which cannot be known: so much late, never early */
		  book(S(5), 3, S(20) - S(3600) + S(5)),
		  crash(),
		  /* forward it looks like time that went by: what waits for its slot is overtaken */
		  step_clock(S(3600)),
		  book(S(6), 4, S(6)),
		  /* the record is compared with even if the clocks cannot be read together */
		  crash(),
		  step_clock(-S(3600)),
		  blind(true),
		  book(S(7), 5, S(17) - S(3600)),
		  blind(false),
		  book(S(8), 6, S(27) - S(3600)));
	(void) state;
}

static void
clock_moves_pause_and_quota(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = S(1);
	STORY(cfg, 32,
		  book(0, 1, 0),
		  pause_until(0, S(30)),
		  step_clock(S(1000)),
		  see(0, PAUSED_UNTIL, S(1030)),
		  book(S(1), 2, S(1030)),
		  pause_until(S(1), FOREVER),
		  step_clock(-S(2000)),
		  refuse(S(2), SCHEDULE_PAUSED, FOREVER),
		  resume(S(2)),
		  book(S(2), 3, S(31) - S(1000)));

	cfg.quota = 2;
	cfg.quota_window_us = S(60);
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(1)), book(0, 3, S(60)),
		  /* one was counted in the window of 60; it goes along to the window the head is in */
		  step_clock(S(600)),
		  see(S(2), QUOTA_LEFT, 1),
		  book(S(2), 4, S(661)),
		  book(S(2), 5, S(720)),
		  step_clock(-S(600)),
		  book(S(2), 6, S(121)),
		  book(S(2), 7, S(180)));
	(void) state;
}

/*
 * ----------------------------------------------------------------
 *		Quota
 * ----------------------------------------------------------------
 */

static void
quota_fills_window_after_window(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = S(1);
	cfg.quota = 3;
	cfg.quota_window_us = S(60);
	STORY(cfg, 32,
		  see(S(1), QUOTA_LEFT, 3),
		  book(S(1), 1, S(1)),
		  book(S(1), 2, S(2), .permits = 2),
		  see(S(1), QUOTA_LEFT, 0),
		  book(S(1), 3, S(60)),
		  see(S(1), QUOTA_LEFT, 2),
		  /* what a window cannot hold at all is an error; what it cannot hold now waits */
		  refuse(S(1), SCHEDULE_OVER_QUOTA, ANY, .permits = 4),
		  book(S(1), 4, S(120), .permits = 3),
		  appoint(S(1), S(180)),
		  /* no window keeps what is left over for another */
		  book(S(600), 5, S(600)), book(S(600), 6, S(601)), book(S(600), 7, S(602)),
		  book(S(600), 8, S(660)));
	(void) state;
}

static void
quota_and_release(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = S(1);
	cfg.quota = 2;
	cfg.quota_window_us = S(60);
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(1)), book(0, 3, S(60)), book(0, 4, S(61)), book(0, 5, S(120)),
		  see(0, QUOTA_LEFT, 1),
		  release(0, 5, RELEASE_RELEASED),
		  see(0, QUOTA_LEFT, 2),
		  /* the windows before the counted one are not opened again; there are holes */
		  release(0, 4, RELEASE_RELEASED),
		  see(0, HEAD, S(120)),
		  book(0, 6, S(61)),
		  book(0, 7, S(120)),
		  /* a hole is another's of the same weight, so that every count stays */
		  book(0, 8, S(121)),
		  release(0, 7, RELEASE_RELEASED),
		  book(0, 9, S(120)),
		  book(0, 10, S(180), .permits = 2),
		  book(0, 11, S(240)),
		  release(0, 10, RELEASE_RELEASED),
		  book(0, 12, S(241)),
		  book(0, 13, S(180), .permits = 2));
	(void) state;
}

/* S5: a start counts where it takes place */
static void
quota_and_late_starts(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = S(1);
	cfg.quota = 2;
	cfg.quota_window_us = S(60);
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(1)), book(0, 3, S(60)),
		  /* late, and into the next window, where there is room for one */
		  confirm(S(65), 2, 0),
		  see(S(65), QUOTA_LEFT, 0),
		  /* 3 has its place there already */
		  confirm(S(66), 3, 0),
		  book(S(67), 4, S(120)),
		  book(S(67), 5, S(121)),
		  /* full: one that comes late from before waits for the next */
		  book(S(67), 6, S(180)),
		  confirm(S(185), 4, 0),
		  confirm(S(186), 5, S(54)),
		  confirm(S(240), 5, 0));
	/* one that slept through the window of its assigned place counts where it starts */
	cfg.quota = 1;
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(60)), book(0, 3, S(120)),
		  confirm(S(121), 2, S(59)),
		  confirm(S(245), 2, 0),
		  book(S(245), 4, S(300)));
	/* one that nobody knows counts, too */
	cfg.quota = 2;
	STORY(cfg, 32,
		  confirm(0, 900, 0),
		  see(0, QUOTA_LEFT, 1),
		  book(0, 1, S(1)),
		  book(0, 2, S(60)));
	(void) state;
}

/* a start in a window before the latest: counted by what is remembered there, or taken for full */
static void
quota_of_an_earlier_window(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = S(1);
	cfg.quota = 2;
	cfg.quota_window_us = S(60);
	/* 2 comes late, into a window with one booking, while the latest is two further */
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(1)), book(0, 3, S(60), .permits = 1), book(0, 4, S(120), .permits = 2),
		  book(0, 5, S(180)),
		  confirm(S(70), 2, 0),
		  confirm(S(72), 3, 0));
	/* with two there: past the full ones, to the latest, which has room */
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(1)), book(0, 3, S(60)), book(0, 4, S(61)), book(0, 5, S(120), .permits = 2),
		  book(0, 6, S(180)),
		  confirm(S(70), 2, S(110)));
	/* with an appointment there, which no entry stands for: nobody knows, so it is full */
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(1)), appoint(0, S(60)), book(0, 4, S(120), .permits = 2),
		  book(0, 5, S(180)),
		  confirm(S(70), 2, S(110)));
	/* with one there that the row forgot, likewise */
	STORY(cfg, 4,
		  book(0, 1, 0), book(0, 2, S(1)), book(0, 3, S(60)), book(0, 4, S(120), .permits = 2),
		  book(0, 5, S(180)), book(0, 6, S(240), .permits = 2), book(0, 7, S(300)),
		  confirm_at(S(70), 2, S(1), S(110)));
	/* that goes along when the clock is set */
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(1)), appoint(0, S(60)), book(0, 4, S(120), .permits = 2),
		  book(0, 5, S(180)),
		  step_clock(S(600)),
		  confirm(S(70), 2, S(110)));
	(void) state;
}

static void
quota_changed(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = S(1);
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(1)), book(0, 3, S(2)),
		  see(0, QUOTA_LEFT, -1),
		  change(quota_window_us, S(60)),
		  change(quota, 4),
		  /* those that are remembered count */
		  see(0, QUOTA_LEFT, 1),
		  book(0, 4, S(3)),
		  book(0, 5, S(60)),
		  change(quota, 2),
		  book(0, 6, S(61)),
		  book(0, 7, S(120)),
		  /* a longer window holds all of them */
		  change(quota_window_us, S(3600)),
		  see(0, QUOTA_LEFT, 0),
		  book(0, 8, S(3600)),
		  /* shorter: carried to the window that holds the head */
		  change(quota_window_us, S(10)),
		  book(0, 9, S(3601)),
		  book(0, 10, S(3610)),
		  /* another origin is another window */
		  change(quota_origin_us, T0 + S(5)),
		  book(0, 11, S(3611)),
		  book(0, 12, S(3615)),
		  change(quota, 0),
		  book(0, 13, S(3616)), book(0, 14, S(3617)), book(0, 15, S(3618)));
	/* appointments are not remembered: their count goes along */
	cfg.quota = 3;
	cfg.quota_window_us = S(60);
	STORY(cfg, 32,
		  appoint(0, 0), appoint(0, S(1)),
		  change(quota_window_us, S(120)),
		  see(0, QUOTA_LEFT, 1));
	/* credit of a burst belongs to the window that it can be used in */
	cfg.quota = 5;
	cfg.burst = 3;
	cfg.interval_us = S(30);
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, 0), book(0, 3, 0),
		  see(0, QUOTA_LEFT, 2));
	(void) state;
}

/* windows run on from the origin both ways */
static void
quota_origin_after_now(void **state)
{
	static const int64_t origin[] = {
		T0 + S(7), T0 - S(53), T0 + S(7) + S(60) * 1000000, T0 + S(7) - S(60) * 20000000,
		-S(60) + (T0 + S(7)) % S(60)
	};

	for (size_t i = 0; i < lengthof(origin); i++)
	{
		ScheduleConfig cfg = plain;

		cfg.interval_us = S(1);
		cfg.quota = 2;
		cfg.quota_window_us = S(60);
		cfg.quota_origin_us = origin[i];
		STORY(cfg, 32,
			  book(0, 1, 0), book(0, 2, S(1)),
			  book(0, 3, S(7)), book(0, 4, S(8)), book(0, 5, S(67)));
	}
	(void) state;
}

/*
 * ----------------------------------------------------------------
 *		Confirm
 * ----------------------------------------------------------------
 */

static void
confirm_in_time(void **state)
{
	STORY(plain, 32,
		  book(0, 1, 0), book(0, 2, S(10)), book(0, 3, S(20)),
		  confirm(1, 1, 0),
		  confirm(S(4), 2, S(6)),
		  confirm(S(10) - 1, 2, 1),
		  confirm(S(10), 2, 0),
		  confirm(S(10), 2, 0),
		  confirm(S(19), 2, 0),
		  see(S(19), NEXT_START, S(20)),
		  see(S(19), LATE, 0),
		  confirm(S(20), 3, 0),
		  release(S(20), 3, RELEASE_STARTED));
	(void) state;
}

/* S4: late callers get places one after another, in the order of asking, and keep them */
static void
confirm_late(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = S(1);
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(1)), book(0, 3, S(2)), book(0, 4, S(3)),
		  confirm(MS(3500), 2, 0),
		  confirm(MS(3600), 3, MS(900)),
		  confirm(MS(3700), 4, MS(1800)),
		  see(MS(3700), LATE, 2),
		  /* S1: a newcomer comes behind the starts as well as behind the bookings */
		  book(MS(3800), 5, MS(6500)),
		  /* asking early is no second place */
		  confirm(MS(3900), 4, MS(1600)),
		  confirm(MS(4500), 3, 0),
		  confirm(MS(5500), 4, 0),
		  confirm(MS(6500), 5, 0),
		  see(MS(6500), NEXT_START, MS(7500)),
		  see(MS(6500), HEAD, MS(7500)));
	(void) state;
}

static void
confirm_within_and_past_a_place(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = S(1);
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(1)), book(0, 3, S(2)), book(0, 4, S(3)), book(0, 5, S(4)),
		  confirm(MS(3500), 2, 0),
		  confirm(MS(3600), 3, MS(900)),	/* 4.5 .. 5.5 */
		  confirm(MS(3700), 4, MS(1800)),	/* 5.5 .. 6.5 */
		  confirm(MS(4000), 5, MS(2500)),	/* 6.5 .. 7.5 */
		  /* within its place, but late: the next waits for the rest of an interval */
		  confirm(MS(5200), 3, 0),
		  confirm(MS(5500), 4, MS(700)),
		  confirm(MS(6200), 4, 0),
		  /* past its place, and nobody started there: an interval since the last is enough */
		  confirm(MS(9000), 5, 0),
		  see(MS(9000), NEXT_START, S(10)));
	(void) state;
}

/* an assigned place whose time was taken away by others is asked for anew */
static void
confirm_loses_its_place(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = S(1);
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(1)), book(0, 3, S(2)), book(0, 4, S(3)),
		  confirm(MS(3500), 2, 0),
		  confirm(MS(3600), 3, MS(900)),	/* 4.5 */
		  confirm(MS(3700), 4, MS(1800)),	/* 5.5 */
		  /* 3 sleeps through; 4 starts; then 3 */
		  confirm(MS(5500), 4, 0),
		  confirm(MS(5600), 3, MS(900)),
		  confirm(MS(6500), 3, 0),
		  see(MS(6500), HEAD, MS(7500)));
	(void) state;
}

/* the floor has moved past the whole of its place: another place, behind the others' */
static void
confirm_is_assigned_anew(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = S(1);
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(1)), book(0, 3, S(2)), book(0, 4, S(3)), book(0, 5, S(4)),
		  confirm(S(5), 2, 0),
		  confirm(S(5), 3, S(1)),		/* 6 .. 7 */
		  confirm(S(5), 4, S(2)),		/* 7 .. 8 */
		  confirm(S(5), 5, S(3)),		/* 8 .. 9 */
		  confirm(MS(7500), 4, 0),	/* floor 8.5 */
		  confirm(MS(8000), 5, MS(500)),	/* the rest of its place */
		  /* 3's was over at 7; the next that is nobody's begins at 9 */
		  confirm(MS(8100), 3, MS(900)),
		  see(MS(8100), HEAD, S(10)),
		  confirm(MS(8500), 5, 0),
		  /* and 5 was late, which leaves half of it */
		  confirm(S(9), 3, MS(500)),
		  confirm(MS(9500), 3, 0),
		  see(MS(9500), HEAD, MS(10500)));
	(void) state;
}

static void
confirm_with_a_burst(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = S(1);
	cfg.burst = 2;
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, 0), book(0, 3, S(1)), book(0, 4, S(2)), book(0, 5, S(3)),
		  /* two may come at once, the third an interval later */
		  confirm(S(4), 3, 0), confirm(S(4), 4, 0),
		  confirm(S(4), 5, S(1)),
		  confirm(S(5), 5, 0),
		  book(S(5), 6, S(6)));
	(void) state;
}

/* S2: nobody who waited is sent away because the row remembers only its latest */
static void
confirm_unremembered(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = S(1);
	STORY(cfg, 4,
		  /* never seen, on a source never used */
		  confirm(0, 900, 0),
		  see(0, HEAD, S(1)),
		  confirm(MS(100), 901, MS(900)),
		  /* it is remembered from here on */
		  confirm(MS(200), 901, MS(800)),
		  confirm(S(1), 901, 0),
		  confirm(S(1), 901, 0),
		  /* too early by the slot it shows: nothing is assigned */
		  confirm_at(S(2), 0, S(9), S(7)),
		  see(S(2), HEAD, S(2)),
		  /* appointments: no ticket, so no place is kept for the one that has to wait */
		  confirm_at(S(2), 0, S(2), 0),
		  confirm_at(S(2), 0, S(2), S(1)),
		  see(S(2), HEAD, S(3)),
		  see(S(2), NRECENT, 2));
	/* a ticket's slot behind the head is of another clock, or of a rewound schedule */
	STORY(cfg, 4,
		  book(0, 1, 0),
		  confirm_at(MS(200), 902, S(9), MS(800)));
	(void) state;
}

/* it does not take a caller's place in the row, only one that is over */
static void
confirm_unremembered_in_a_full_row(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = S(1);
	STORY(cfg, 4,
		  book(0, 1, 0), book(0, 2, S(1)), book(0, 3, S(2)), book(0, 4, S(3)), book(0, 5, S(4)),
		  see(0, WAITING, 4),
		  confirm(0, 900, S(1)),
		  see(0, WAITING, 4),
		  release(0, 2, RELEASE_RELEASED),
		  release(0, 5, RELEASE_RELEASED));
	(void) state;
}

static void
confirm_under_a_pause(void **state)
{
	STORY(plain, 32,
		  book(0, 1, 0), book(0, 2, S(10)), appoint(0, S(20)),
		  pause_until(S(15), S(40)),
		  /* due when the pause began: behind it, in the order of asking */
		  confirm(S(15), 2, S(25)),
		  confirm_at(S(20), 0, S(20), S(30)),
		  confirm(S(40), 2, 0),
		  pause_until(S(45), FOREVER),
		  confirm_at(S(50), 0, S(20), SCHEDULE_ASK_AGAIN_US),
		  see(S(50), HEAD, S(50)),
		  resume(S(60)),
		  confirm_at(S(60), 0, S(20), 0));
	(void) state;
}

/* a rate made slower reaches those who wait when they ask */
static void
confirm_at_a_slower_rate(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = S(1);
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(1)), book(0, 3, S(2)),
		  change(interval_us, S(10)),
		  confirm(S(1), 2, 0),
		  confirm(S(2), 3, S(9)),
		  confirm(S(11), 3, 0),
		  see(S(11), HEAD, S(21)),
		  /* faster again: what was booked wide stays wide */
		  book(S(11), 4, S(21)),
		  change(interval_us, S(1)),
		  confirm(S(21), 4, 0),
		  book(S(21), 5, S(31)));
	(void) state;
}

static void
release_of_an_assigned_place(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = S(1);
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(1)), book(0, 3, S(2)), book(0, 4, S(3)), book(0, 5, S(4)),
		  confirm(MS(3500), 2, 0),
		  confirm(MS(3600), 3, MS(900)),
		  confirm(MS(3700), 4, MS(1800)),
		  release(MS(3800), 3, RELEASE_RELEASED),
		  /* it is not sold as a slot: somebody else may have been told the same one */
		  book(MS(3800), 6, MS(6500)),
		  /* but is the next one's that asks to start */
		  confirm(MS(4100), 5, MS(400)),
		  confirm(MS(4500), 5, 0),
		  confirm(MS(5500), 4, 0),
		  see(MS(5500), HEAD, MS(7500)));
	/* the last one: its place is one of next_start's, which does not go back */
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(1)), book(0, 3, S(2)),
		  confirm(MS(3500), 2, 0),
		  confirm(MS(3600), 3, MS(900)),
		  book(MS(3600), 4, MS(5500)),
		  release(MS(3700), 4, RELEASE_RELEASED),
		  release(MS(3700), 3, RELEASE_RELEASED),
		  see(MS(3700), HEAD, MS(5500)),
		  book(MS(3700), 5, MS(5500)),
		  book(MS(3700), 6, MS(6500)));
	(void) state;
}

/*
 * ----------------------------------------------------------------
 *		Keys
 * ----------------------------------------------------------------
 */

static void
key_finds_its_booking(void **state)
{
	STORY(plain, 32,
		  book(0, 1, 0),
		  book(0, 2, S(10), .key = 5),
		  book(0, 3, S(10), .key = 5, .want_ticket = 2),
		  book(S(1), 3, S(20), .key = 6),
		  see(S(1), BOOKED, 3),
		  refuse(S(1), SCHEDULE_KEY_DIFFERS, ANY, .key = 5, .permits = 2),
		  /* released: over, the key books anew */
		  release(S(1), 2, RELEASE_RELEASED),
		  book(S(1), 4, S(10), .key = 5),
		  /* due: answered as confirm would, one start and no more */
		  book(S(10), 5, S(10), .key = 5, .want_ticket = 4),
		  book(S(10), 5, S(30), .key = 5),
		  /* confirmed: over */
		  confirm(S(20), 3, 0),
		  book(S(20), 6, S(40), .key = 6),
		  /* what the line or the bound would refuse anew is still found */
		  change(max_waiting, 0),
		  book(S(20), 7, S(40), .key = 6, .want_ticket = 6, within(0)));
	(void) state;
}

/* S8: the reply of an immediate booking was lost */
static void
key_of_an_immediate_booking(void **state)
{
	STORY(plain, 32,
		  book(0, 1, 0, .key = 5),
		  /* its start is recorded anew, an interval after the one that may have been */
		  STEP(BOOK, .at = S(1), .ticket = 2, .key = 5, .answer = SCHEDULE_OK, .want = S(10), .want_ticket = 1),
		  see(S(1), HEAD, S(20)),
		  see(S(1), WAITING, 1),
		  book(S(2), 3, S(10), .key = 5, .want_ticket = 1),
		  confirm(S(10), 1, 0),
		  book(S(11), 4, S(20), .key = 5),
		  /* long after: at once, and once */
		  book(S(100), 5, S(100), .key = 8),
		  book(S(200), 6, S(200), .key = 8, .want_ticket = 5),
		  book(S(200), 7, S(210), .key = 8));
	(void) state;
}

static void
key_over_crash_and_pause(void **state)
{
	STORY(plain, 32,
		  book(0, 1, 0), book(0, 2, S(10), .key = 5),
		  crash(),
		  book(0, 3, S(20), .key = 5),
		  pause_until(0, FOREVER),
		  book(0, 4, S(20), .key = 5, .want_ticket = 3),
		  refuse(S(20), SCHEDULE_PAUSED, FOREVER, .key = 5),
		  resume(S(20)),
		  book(S(20), 4, S(20), .key = 5, .want_ticket = 3));
	(void) state;
}

/*
 * ----------------------------------------------------------------
 *		Pause, advance, rewind
 * ----------------------------------------------------------------
 */

static void
pause_moves_those_who_wait(void **state)
{
	STORY(plain, 32,
		  book(0, 1, 0), book(0, 2, S(10)), book(0, 3, S(20)),
		  pause_until(S(5), S(60)),
		  see(S(5), HEAD, S(80)),
		  see(S(5), WAITING, 2),
		  book(S(5), 4, S(80)),
		  confirm(S(6), 2, S(54)),
		  /* only ever extends */
		  pause_until(S(6), S(30)),
		  see(S(6), PAUSED_UNTIL, S(60)),
		  pause_until(S(6), S(65)),
		  see(S(6), HEAD, S(95)),
		  /* resume: those who were moved stay, in order */
		  resume(S(7)),
		  see(S(7), PAUSED_UNTIL, -T0),
		  confirm(S(7), 2, S(58)),
		  book(S(7), 5, S(95)),
		  confirm(S(65), 2, 0),
		  confirm(S(75), 3, 0));
	(void) state;
}

static void
pause_of_an_idle_source(void **state)
{
	STORY(plain, 32,
		  pause_until(0, S(30)),
		  refuse(0, SCHEDULE_TOO_LONG, S(30), within(0)),
		  book(0, 1, S(30)), book(0, 2, S(40)),
		  /* one that lies behind the pause is not moved */
		  pause_until(0, S(29)),
		  pause_until(S(1), S(30)),
		  see(S(1), HEAD, S(50)),
		  /* a pause that is over is none */
		  book(S(1000), 3, S(1000)));
	(void) state;
}

static void
pause_and_holes(void **state)
{
	STORY(plain, 32,
		  book(0, 1, 0), book(0, 2, S(10)), book(0, 3, S(20)), book(0, 4, S(30)),
		  release(0, 2, RELEASE_RELEASED),
		  /* all move by what the first that is held has to; the hole before it ends up in the pause */
		  pause_until(0, S(25)),
		  see(0, HEAD, S(45)),
		  book(0, 5, S(45)),
		  /* a hole behind it can be taken */
		  release(0, 4, RELEASE_RELEASED),
		  book(0, 6, S(35)));
	(void) state;
}

static void
pause_under_a_quota(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = S(1);
	cfg.quota = 2;
	cfg.quota_window_us = S(60);
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(1)), book(0, 3, S(60)), book(0, 4, S(61)), book(0, 5, S(120)),
		  pause_until(0, S(119)),
		  /* all by 118: no window gets more than two */
		  confirm(0, 2, S(119)),
		  confirm(0, 3, S(178)),
		  confirm(0, 4, S(179)),
		  confirm(0, 5, S(238)),
		  book(0, 6, S(239)),
		  book(0, 7, S(240)));
	/* four would come into one window: the third is pushed on, and those behind it with it */
	STORY(cfg, 32,
		  book(S(57), 1, S(57)), book(S(57), 2, S(58)), book(S(57), 3, S(60)),
		  book(S(57), 4, S(61)), book(S(57), 5, S(120)),
		  pause_until(S(57), S(60)),
		  confirm(S(57), 2, S(3)),
		  confirm(S(57), 3, S(5)),
		  confirm(S(57), 4, S(63)),
		  confirm(S(57), 5, S(122)),
		  book(S(57), 6, S(180)));
	/* the window that the last one comes into is the latest from here on */
	cfg.quota = 1;
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(60)),
		  pause_until(0, S(130)),
		  book(0, 3, S(180)));
	(void) state;
}

static void
advance_moves_forward_only(void **state)
{
	STORY(plain, 32,
		  book(0, 1, 0), book(0, 2, S(10)),
		  advance(0, S(15)),
		  see(0, HEAD, S(20)),
		  advance(0, S(100)),
		  see(0, RESERVED, S(100)),
		  crash(),
		  book(0, 3, S(100)),
		  advance(0, S(200)),
		  /* what lies before it is not given back across it */
		  release(0, 3, RELEASE_RELEASED),
		  see(0, HEAD, S(200)),
		  book(0, 4, S(100)),
		  book(0, 5, S(200)),
		  release(0, 5, RELEASE_RELEASED),
		  see(0, HEAD, S(200)));
	(void) state;
}

static void
rewind_gives_out_again(void **state)
{
	STORY(plain, 32,
		  book(0, 1, 0), appoint(0, S(10)), appoint(0, S(20)), book(0, 2, S(30)), book(0, 3, S(40)),
		  rewind_to(0, S(70)),
		  see(0, HEAD, S(50)),
		  release(0, 3, RELEASE_UNKNOWN),
		  rewind_to(0, S(10)),
		  see(0, HEAD, S(10)),
		  see(0, RESERVED, S(10)),
		  see(0, WAITING, 0),
		  crash(),
		  book(0, 4, S(10)), book(0, 5, S(20)),
		  release(0, 5, RELEASE_RELEASED),
		  see(0, HEAD, S(20)));
	(void) state;
}

/*
 * ----------------------------------------------------------------
 *		The ends of the numbers
 * ----------------------------------------------------------------
 */

static void
expect_book(World *w, int64_t at, int32_t permits, ScheduleAnswer answer, int64_t slot)
{
	static int64_t ticket = 1;
	ScheduleRequest req = {.permits = permits,.max_wait_us = -1,.ticket = ticket++};
	ScheduleBooking out;
	Schedule	before = w->row;
	ScheduleAnswer got = world_book(w, at, &req, &out, __LINE__);

	assert_int_equal(got, answer);
	if (got == SCHEDULE_OK)
	{
		assert_int_equal(out.slot, slot);
		check_state(w, __LINE__);
	}
	else
		assert_memory_equal(&before, &w->row, sizeof(before));
}

/* A10 */
static void
intervals_near_the_end_of_time(void **state)
{
	static const struct
	{
		int64_t		interval;
		int32_t		permits;
		ScheduleAnswer first;
		ScheduleAnswer second;
	}			cases[] = {
		{INT64_C(7200000000000000000), 1, SCHEDULE_OK, SCHEDULE_OVERFLOW},	/* 2000000000 hours */
		{SCHEDULE_END - T0, 1, SCHEDULE_OK, SCHEDULE_OVERFLOW},
		{SCHEDULE_END - T0 + 1, 1, SCHEDULE_OVERFLOW, SCHEDULE_OVERFLOW},
		{SCHEDULE_END, 1, SCHEDULE_OVERFLOW, SCHEDULE_OVERFLOW},
		{SCHEDULE_END + 1, 1, SCHEDULE_OVERFLOW, SCHEDULE_OVERFLOW},
		{INT64_MAX, 1, SCHEDULE_OVERFLOW, SCHEDULE_OVERFLOW},
		{INT64_MAX, INT32_MAX, SCHEDULE_OVERFLOW, SCHEDULE_OVERFLOW},
		{INT64_MAX / 2, 2, SCHEDULE_OVERFLOW, SCHEDULE_OVERFLOW},
		{INT64_MAX / 2 + 1, 2, SCHEDULE_OVERFLOW, SCHEDULE_OVERFLOW},
		{S(1), INT32_MAX, SCHEDULE_OK, SCHEDULE_OK},
		{(SCHEDULE_END - T0) / INT32_MAX, INT32_MAX, SCHEDULE_OK, SCHEDULE_OVERFLOW},
	};

	for (size_t i = 0; i < lengthof(cases); i++)
	{
		ScheduleConfig cfg = plain;
		World		w;
		int64_t		second;

		cfg.interval_us = cases[i].interval;
		world_init(&w, &cfg, 8);
		expect_book(&w, 0, cases[i].permits, cases[i].first, T0);
		second = w.row.un.next_request_at;
		expect_book(&w, 0, cases[i].permits, cases[i].second, second);
		/* it is still there, and can be asked */
		if (cases[i].first == SCHEDULE_OK)
		{
			Step		st = confirm(S(5), 999, second - T0 - S(5));

			assert_true(look(&w, WAITING, S(1)) == (cases[i].second == SCHEDULE_OK));
			run_step(&w, &st);
		}
	}
	(void) state;
}

static void
bursts_near_the_end_of_time(void **state)
{
	static const int64_t interval[] = {1, S(1), INT64_C(7200000000000000000), INT64_MAX / INT32_MAX};

	for (size_t i = 0; i < lengthof(interval); i++)
	{
		ScheduleConfig cfg = plain;
		World		w;

		cfg.interval_us = interval[i];
		cfg.burst = INT32_MAX;
		world_init(&w, &cfg, 8);
		expect_book(&w, 0, 1, SCHEDULE_OK, T0);
		if (interval[i] < INT64_C(7200000000000000000))
			expect_book(&w, 0, 1, SCHEDULE_OK, T0);
		else
			expect_book(&w, 0, 1, SCHEDULE_OVERFLOW, 0);
	}
	(void) state;
}

static void
heads_near_the_end_of_time(void **state)
{
	STORY(plain, 32,
		  advance(0, SCHEDULE_END - T0),
		  see(0, HEAD, SCHEDULE_END - T0),
		  see(0, RESERVED, SCHEDULE_END - T0),
		  refuse(0, SCHEDULE_OVERFLOW, ANY),
		  refuse(0, SCHEDULE_TOO_LONG, SCHEDULE_END - T0, within(S(1))),
		  step_clock(S(100)),
		  refuse(S(1), SCHEDULE_OVERFLOW, ANY),
		  step_clock(-S(200)),
		  crash(),
		  rewind_to(S(2), -S(90)),
		  book(S(2), 1, -S(90)));
	STORY(plain, 32,
		  book(0, 1, 0), book(0, 2, S(10)),
		  STEP(PAUSE, .at = 0, .want = SCHEDULE_END - T0, .answer = SCHEDULE_OVERFLOW),
		  STEP(PAUSE, .at = 0, .want = SCHEDULE_END - T0 + 1, .answer = SCHEDULE_OVERFLOW),
		  STEP(PAUSE, .at = 0, .want = SCHEDULE_END - T0 - S(10), .answer = SCHEDULE_OK),
		  see(0, HEAD, SCHEDULE_END - T0),
		  release(0, 2, RELEASE_RELEASED),
		  refuse(0, SCHEDULE_OVERFLOW, ANY, .permits = 2),
		  book(0, 3, SCHEDULE_END - T0 - S(10)));
	(void) state;
}

static void
clock_steps_without_measure(void **state)
{
	static const int64_t wall[] = {1, T0, SCHEDULE_END - S(1), T0 / 2, SCHEDULE_END, 1};
	World		w;
	Step		st[] = {book(0, 1, 0), book(0, 2, S(10)), pause_until(0, S(5))};

	world_init(&w, &plain, 8);
	for (size_t i = 0; i < lengthof(st); i++)
		run_step(&w, &st[i]);
	for (size_t i = 0; i < lengthof(wall); i++)
	{
		ScheduleClock clk = {.wall = wall[i],.mono = MONO0 + S(1),.kernel = 42};
		int64_t		wait;

		schedule_enter(&w.row, &w.cfg, &clk, w.run);
		assert_int_equal(schedule_confirm(&w.row, &w.cfg, clk.wall, 2, 0, &wait), SCHEDULE_OK);
		schedule_leave(&w.row, &w.cfg, &clk);
		check_state(&w, __LINE__);
	}
	(void) state;
}

static void
row_of_the_largest_size(void **state)
{
	ScheduleConfig cfg = plain;
	World		w;

	cfg.max_waiting = -1;
	world_init(&w, &cfg, SCHEDULE_MAX_REMEMBERED);
	for (int i = 0; i < 3 * SCHEDULE_MAX_REMEMBERED; i++)
		expect_book(&w, 0, 1 + i % 3, SCHEDULE_OK, w.row.un.next_request_at ? w.row.un.next_request_at : T0);
	assert_int_equal(w.row.un.nrecent, SCHEDULE_MAX_REMEMBERED);
	assert_int_equal(look(&w, WAITING, 0), 3 * SCHEDULE_MAX_REMEMBERED - 1);
	(void) state;
}

/* remembering a released ticket must not cost a released place */
static void
holes_in_a_full_row(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = S(10);
	STORY(cfg, 4,
		  book(0, 1, 0), book(0, 2, S(10)), book(0, 3, S(20)), book(0, 4, S(30)), book(0, 5, S(40)),
		  release(0, 2, RELEASE_RELEASED), release(0, 3, RELEASE_RELEASED),
		  book(0, 6, S(10)),
		  book(0, 7, S(20)));
	(void) state;
}

/*
 * Windows between a late caller and the latest booking: 31 million of them here,
 * which nobody may step through while the row is locked.
 */
static void
quota_over_many_windows(void **state)
{
	ScheduleConfig cfg = plain;

	cfg.interval_us = S(1);
	cfg.quota = 10;
	cfg.quota_window_us = S(1);
	/* lowered below what a booking takes */
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(1), .permits = 5),
		  advance(0, S(365 * 86400)), book(0, 3, S(365 * 86400)),
		  change(quota, 1),
		  confirm(S(20), 2, S(365 * 86400) + S(1) - S(20)));
	/* pushed through windows of which nothing is known */
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(1)), book(0, 3, S(2)),
		  advance(0, S(365 * 86400)), appoint(0, S(365 * 86400)),
		  change(quota, 1),
		  pause_until(0, MS(1500)));
	/* a pause moves no farther than it must */
	cfg.quota_window_us = S(60);
	STORY(cfg, 32,
		  book(0, 1, 0), book(0, 2, S(1)),
		  advance(0, S(7 * 86400)), appoint(0, S(7 * 86400)),
		  pause_until(0, S(2)),
		  confirm(S(1), 2, S(1)));
	/* what forgotten bookings took in a longer window is not known: it is full */
	cfg.quota = 3;
	cfg.quota_window_us = S(2);
	STORY(cfg, 32,
		  appoint(0, 0), appoint(0, S(1)), appoint(0, S(2)), appoint(0, S(3)),
		  change(quota_window_us, S(86400)),
		  see(0, QUOTA_LEFT, 0));
	(void) state;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slots_lie_an_interval_apart),
		cmocka_unit_test(idling_builds_up_no_credit),
		cmocka_unit_test(burst_lets_so_many_come_at_once),
		cmocka_unit_test(permits_take_as_many_intervals),
		cmocka_unit_test(bounds_of_the_wait),
		cmocka_unit_test(bounds_of_the_line),
		cmocka_unit_test(interval_changed_while_callers_wait),
		cmocka_unit_test(release_of_the_last_gives_its_time_back),
		cmocka_unit_test(release_in_the_middle_leaves_a_hole),
		cmocka_unit_test(release_tells_the_truth),
		cmocka_unit_test(holes_and_what_fits_them),
		cmocka_unit_test(appointments_are_not_remembered),
		cmocka_unit_test(tail_stops_at_an_appointment),
		cmocka_unit_test(hole_reached_where_the_tail_is_not),
		cmocka_unit_test(older_bookings_are_counted_on),
		cmocka_unit_test(older_bookings_are_counted_anew),
		cmocka_unit_test(a_long_line_behind_a_small_row),
		cmocka_unit_test(full_row_and_holes),
		cmocka_unit_test(tickets_stay_unique),
		cmocka_unit_test(crash_sells_no_slot_twice),
		cmocka_unit_test(crash_costs_at_most_the_reserve),
		cmocka_unit_test(mark_is_raised_ahead_of_need),
		cmocka_unit_test(only_a_raised_mark_can_wait),
		cmocka_unit_test(crash_after_a_release),
		cmocka_unit_test(crash_after_a_late_start),
		cmocka_unit_test(crash_and_those_who_wait),
		cmocka_unit_test(crash_and_wide_starts),
		cmocka_unit_test(crash_keeps_pause_and_quota),
		cmocka_unit_test(crash_counts_the_quota_high),
		cmocka_unit_test(crash_and_an_earlier_window),
		cmocka_unit_test(clock_set_forward),
		cmocka_unit_test(clock_set_back),
		cmocka_unit_test(clock_steps_below_the_tolerance),
		cmocka_unit_test(clock_of_another_kernel),
		cmocka_unit_test(clock_after_a_reboot),
		cmocka_unit_test(clock_without_an_identity),
		cmocka_unit_test(clock_that_cannot_be_compared),
		cmocka_unit_test(clock_set_back_over_a_crash),
		cmocka_unit_test(clock_moves_pause_and_quota),
		cmocka_unit_test(quota_fills_window_after_window),
		cmocka_unit_test(quota_and_release),
		cmocka_unit_test(quota_and_late_starts),
		cmocka_unit_test(quota_of_an_earlier_window),
		cmocka_unit_test(quota_changed),
		cmocka_unit_test(quota_origin_after_now),
		cmocka_unit_test(confirm_in_time),
		cmocka_unit_test(confirm_late),
		cmocka_unit_test(confirm_within_and_past_a_place),
		cmocka_unit_test(confirm_loses_its_place),
		cmocka_unit_test(confirm_is_assigned_anew),
		cmocka_unit_test(confirm_with_a_burst),
		cmocka_unit_test(confirm_unremembered),
		cmocka_unit_test(confirm_unremembered_in_a_full_row),
		cmocka_unit_test(confirm_under_a_pause),
		cmocka_unit_test(confirm_at_a_slower_rate),
		cmocka_unit_test(release_of_an_assigned_place),
		cmocka_unit_test(key_finds_its_booking),
		cmocka_unit_test(key_of_an_immediate_booking),
		cmocka_unit_test(key_over_crash_and_pause),
		cmocka_unit_test(pause_moves_those_who_wait),
		cmocka_unit_test(pause_of_an_idle_source),
		cmocka_unit_test(pause_and_holes),
		cmocka_unit_test(pause_under_a_quota),
		cmocka_unit_test(advance_moves_forward_only),
		cmocka_unit_test(rewind_gives_out_again),
		cmocka_unit_test(intervals_near_the_end_of_time),
		cmocka_unit_test(bursts_near_the_end_of_time),
		cmocka_unit_test(heads_near_the_end_of_time),
		cmocka_unit_test(clock_steps_without_measure),
		cmocka_unit_test(row_of_the_largest_size),
		cmocka_unit_test(holes_in_a_full_row),
		cmocka_unit_test(quota_over_many_windows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
