/*
 * schedule.c - the arithmetic of a source's schedule
 *
 * Two heads follow one rule.  next_request_at runs over bookings and gives
 * each its slot; next_start runs over starts and gives a caller that comes
 * late its place.  next_request_at is never behind next_start, so an immediate
 * booking cannot come too close to a late start.  start_floor is next_start
 * without the places that are assigned but not yet taken; next_start is never
 * behind it.
 *
 * Entries stand in schedule order, and each lies at or after the end of the
 * one before.  Taking the last one off again (next_request_at -= width) is
 * therefore always safe, and so is going on with the one before it, as long as
 * nothing that is not remembered lies between: GAP marks an entry with such a
 * thing before it, SCHEDULE_TAIL_UNSEEN says that one lies after the last.
 *
 * Nothing here overflows: sums are saturated at SCHEDULE_END, and a booking
 * that would reach it is refused.
 */
#include "schedule.h"

#include <string.h>

#define ENTRY_GAP			(UINT64_C(1) << 3)
#define ENTRY_ASSIGNED		(UINT64_C(1) << 4)

#define Min64(a, b)			((a) < (b) ? (a) : (b))
#define Max64(a, b)			((a) > (b) ? (a) : (b))

/*
 * ----------------------------------------------------------------
 *		Small arithmetic
 * ----------------------------------------------------------------
 */

/* a + b, kept within 0 .. SCHEDULE_END */
static int64_t
sum(int64_t a, int64_t b)
{
	int64_t		r;

	if (__builtin_add_overflow(a, b, &r))
		return b > 0 ? SCHEDULE_END : 0;
	return r < 0 ? 0 : Min64(r, SCHEDULE_END);
}

/* how far next_request_at may run ahead of the slot: the credit of a burst */
static int64_t
tolerance(const ScheduleConfig *cfg)
{
	int64_t		r;

	if (__builtin_mul_overflow(cfg->interval_us, (int64_t) cfg->burst - 1, &r))
		return SCHEDULE_END;
	return Min64(r, SCHEDULE_END);
}

/*
 * The start of the quota window that holds t.  Windows repeat from the origin
 * in both directions.
 */
static int64_t
window_start(const ScheduleConfig *cfg, int64_t t)
{
	int64_t		into = (t % cfg->quota_window_us - cfg->quota_origin_us % cfg->quota_window_us)
		% cfg->quota_window_us;

	if (into < 0)
		into += cfg->quota_window_us;
	return t - into;
}

/*
 * ----------------------------------------------------------------
 *		Entries
 * ----------------------------------------------------------------
 */

static void
set_state(ScheduleEntry *e, ScheduleEntryState state)
{
	e->word = (e->word & ~UINT64_C(7)) | (uint64_t) state;
}

static bool
is_assigned(const ScheduleEntry *e)
{
	return (e->word & ENTRY_ASSIGNED) != 0;
}

static bool
is_waiting(const ScheduleEntry *e, int64_t now)
{
	return entry_state(e) == ENTRY_HELD && e->slot > now;
}

static int
entry_index(const Schedule *s, const ScheduleEntry *e)
{
	int			i = (int) (e - s->recent) - (int) s->un.first;

	return i < 0 ? i + s->remembered : i;
}

static int32_t
remembered_permits(int32_t permits)
{
	return permits < ENTRY_MAX_PERMITS ? permits : ENTRY_MAX_PERMITS;
}

static ScheduleEntry *
find_ticket(Schedule *s, int64_t ticket)
{
	if (ticket <= 0 || ticket > ENTRY_TICKET_MASK)
		return NULL;
	/* wherever it stands: an entry not in use has no ticket */
	for (int i = 0; i < s->remembered; i++)
		if (entry_ticket(&s->recent[i]) == ticket)
			return &s->recent[i];
	return NULL;
}

/*
 * The booking that a repeated key finds: one that is held, or one that began
 * when it was booked (its reply may have been lost).  A confirmed or released
 * one is over, and its key free.
 */
static ScheduleEntry *
find_key(Schedule *s, uint64_t key)
{
	if (key == 0)
		return NULL;
	for (int i = 0; i < s->un.nrecent; i++)
	{
		ScheduleEntry *e = schedule_entry(s, i);

		if (e->key == key && (entry_state(e) == ENTRY_HELD || entry_state(e) == ENTRY_IMMEDIATE))
			return e;
	}
	return NULL;
}

/* the last entry before "i" whose place is on the schedule, or -1 */
static int
scheduled_before(const Schedule *s, int i)
{
	while (--i >= 0)
		if (entry_state(schedule_entry(s, i)) != ENTRY_GONE)
			break;
	return i;
}

/* from here on the schedule holds something behind the last entry */
static void
tail_unseen(Schedule *s)
{
	s->un.flags |= SCHEDULE_TAIL_UNSEEN;
}

/*
 * A held booking that has to be forgotten is counted on: the older bookings
 * are taken to lie evenly between older_since and older_until.  The count is
 * taken anew when half of that stretch has passed, so that an old rate does not
 * stay in the estimate.
 */
static int64_t
older_waiting(const Schedule *s, int64_t now)
{
	int64_t		left = s->un.older_until - now;
	int64_t		span = s->un.older_until - s->un.older_since;

	if (s->un.older_count <= 0 || left <= 0)
		return 0;
	if (left >= span)
		return s->un.older_count;
	/* count < 2^31 in any schedule that can be waited for: scale, don't overflow */
	while (span > INT32_MAX)
	{
		span >>= 1;
		left >>= 1;
	}
	if (s->un.older_count > INT32_MAX)
		return s->un.older_count;
	return Min64(s->un.older_count, (s->un.older_count * left + span - 1) / span);
}

static void
count_as_older(Schedule *s, const ScheduleEntry *e, int64_t now)
{
	ScheduleUnlogged *un = &s->un;

	if (older_waiting(s, now) == 0)
	{
		un->older_count = 0;
		un->older_since = Max64(now, e->slot - e->width);
		un->older_until = e->slot;
	}
	else if (now - un->older_since > (un->older_until - un->older_since) / 2)
	{
		un->older_count = older_waiting(s, now);
		un->older_since = now;
	}
	un->older_count++;
	un->older_until = Max64(un->older_until, e->slot);
}

/* what may be forgotten to make room */
typedef enum Forgettable
{
	FORGET_OVER,				/* what is over */
	FORGET_HOLE,				/* and released places still ahead */
	FORGET_HELD					/* and held bookings */
} Forgettable;

/*
 * Which entry to forget when the row is full: one that is over, else a hole,
 * else the oldest held booking (its caller is then judged by its slot).  -1:
 * none that may be.
 */
static int
choose_victim(const Schedule *s, int64_t now, Forgettable what)
{
	int			hole = -1;

	for (int i = 0; i < s->un.nrecent; i++)
	{
		const ScheduleEntry *e = schedule_entry(s, i);

		if (!is_waiting(e, now) && !(entry_state(e) == ENTRY_HOLE && e->slot > now))
			return i;
		if (hole < 0 && entry_state(e) == ENTRY_HOLE)
			hole = i;
	}
	if (hole >= 0 && what >= FORGET_HOLE)
		return hole;
	return what == FORGET_HELD ? 0 : -1;
}

/* from here on no entry stands for the place of entry i */
static void
unsee(Schedule *s, int i)
{
	int			next = i + 1;

	while (next < s->un.nrecent && entry_state(schedule_entry(s, next)) == ENTRY_GONE)
		next++;
	if (next < s->un.nrecent)
		schedule_entry(s, next)->word |= ENTRY_GAP;
	else
		tail_unseen(s);
	s->un.unseen_until = Max64(s->un.unseen_until, schedule_entry(s, i)->slot);
}

static void
forget(Schedule *s, int i, int64_t now)
{
	ScheduleEntry *e = schedule_entry(s, i);

	if (entry_state(e) != ENTRY_GONE)
		unsee(s, i);
	if (is_waiting(e, now))
		count_as_older(s, e, now);

	/* mostly it is the oldest, and nothing has to move */
	for (; i > 0; i--)
		*schedule_entry(s, i) = *schedule_entry(s, i - 1);
	schedule_entry(s, 0)->word = 0;
	s->un.first = s->un.first + 1 < s->remembered ? s->un.first + 1 : 0;
	s->un.nrecent--;
}

/* make room for one more entry, if that is to be had; see choose_victim */
static bool
make_room(Schedule *s, int64_t now, Forgettable what)
{
	if (s->un.nrecent >= s->remembered)
	{
		int			victim = choose_victim(s, now, what);

		if (victim < 0)
			return false;
		forget(s, victim, now);
	}
	return true;
}

/* no two entries of a row have one ticket */
static int64_t
unused_ticket(Schedule *s, int64_t ticket)
{
	while (find_ticket(s, ticket) != NULL)
		ticket = ticket == ENTRY_TICKET_MASK ? 1 : ticket + 1;
	return ticket;
}

static ScheduleEntry *
append(Schedule *s, int64_t now, int64_t ticket, ScheduleEntryState state,
	   int64_t slot, int64_t width, int32_t permits, uint64_t key)
{
	ScheduleEntry *e;

	make_room(s, now, FORGET_HELD);
	e = schedule_entry(s, (int) s->un.nrecent++);
	e->word = (uint64_t) ticket << 16 |
		(uint64_t) remembered_permits(permits) << 6 | (uint64_t) state;
	if (s->un.flags & SCHEDULE_TAIL_UNSEEN)
		e->word |= ENTRY_GAP;
	s->un.flags &= ~(int64_t) SCHEDULE_TAIL_UNSEEN;
	e->slot = slot;
	e->width = width;
	e->key = key;
	return e;
}

/*
 * ----------------------------------------------------------------
 *		Quota
 *
 * logged.quota_start is the latest window with a booking, quota_used what is
 * counted there.  Windows before it are left alone by bookings; a late start
 * may fall into one, and is then counted by the entries, or, where they do not
 * reach back that far, told that the window is full.  Counting too much is
 * allowed, too little never.
 * ----------------------------------------------------------------
 */

/* permits of the entries whose place lies in [from, to) */
static int64_t
permits_between(const Schedule *s, int64_t from, int64_t to)
{
	int64_t		n = 0;

	for (int i = 0; i < s->un.nrecent; i++)
	{
		const ScheduleEntry *e = schedule_entry(s, i);

		if (entry_state(e) != ENTRY_GONE && e->slot >= from && e->slot < to)
			n += entry_permits(e);
	}
	return n;
}

static void
open_window(Schedule *s, int64_t start, int64_t used)
{
	if (s->logged.quota_start != start)
		s->must_log = true;
	s->logged.quota_start = start;
	s->un.quota_used = used;
}

/*
 * Where a start of "permits" that could begin at t begins under the quota,
 * without counting it: never before the latest window.
 */
static int64_t
quota_slot(const Schedule *s, const ScheduleConfig *cfg, int64_t t, int32_t permits)
{
	if (cfg->quota == 0)
		return t;
	t = Max64(t, s->logged.quota_start);
	if (window_start(cfg, t) == s->logged.quota_start &&
		s->un.quota_used > cfg->quota - permits)
		t = sum(s->logged.quota_start, cfg->quota_window_us);
	return t;
}

/* count a start at t, which quota_slot has answered */
static void
quota_count(Schedule *s, const ScheduleConfig *cfg, int64_t t, int32_t permits)
{
	if (cfg->quota == 0)
		return;
	if (window_start(cfg, t) != s->logged.quota_start)
		open_window(s, window_start(cfg, t), 0);
	s->un.quota_used += permits;
}

/*
 * The same for a start that was counted at its slot (0: nowhere) and could now
 * begin at t.
 */
static int64_t
quota_start_at(const Schedule *s, const ScheduleConfig *cfg, int64_t t, int64_t slot, int32_t permits)
{
	if (cfg->quota == 0 || (slot > 0 && window_start(cfg, slot) == window_start(cfg, t)))
		return t;

	/* the quota was lowered since: no earlier window takes so many */
	if (permits > cfg->quota)
		t = Max64(t, s->logged.quota_start);

	/* a window in which it does not fit has an entry: so many steps at most */
	while (t < s->logged.quota_start)
	{
		int64_t		from = window_start(cfg, t);
		int64_t		to = sum(from, cfg->quota_window_us);

		if (s->un.unseen_until < from && permits_between(s, from, to) <= cfg->quota - permits)
			return t;
		t = Min64(to, s->logged.quota_start);
		if (s->un.unseen_until > t)
			t = Min64(window_start(cfg, s->un.unseen_until), s->logged.quota_start);
	}
	return quota_slot(s, cfg, t, permits);
}

/* count that start: in a window before the latest its entry is what counts */
static void
quota_count_start(Schedule *s, const ScheduleConfig *cfg, int64_t t, int64_t slot, int32_t permits)
{
	if (cfg->quota == 0 || (slot > 0 && window_start(cfg, slot) == window_start(cfg, t)))
		return;
	if (t >= s->logged.quota_start)
		quota_count(s, cfg, t, permits);
}

/*
 * The count belongs to a window that is no longer one, or to times that were
 * moved: carry it to the window that holds the head.
 */
static void
carry_quota(Schedule *s, const ScheduleConfig *cfg, int64_t now)
{
	int64_t		start = window_start(cfg, Max64(s->un.next_request_at, now));
	int64_t		used = Max64(s->un.quota_used, permits_between(s, start, INT64_MAX));

	/* what forgotten bookings took in windows before the latest is not known */
	if (s->logged.quota_window != 0 && start < s->logged.quota_start &&
		s->un.unseen_until >= start)
		used = Max64(used, cfg->quota);
	open_window(s, start, used);
	s->logged.quota_window = cfg->quota_window_us;
	s->must_log = true;
}

static void
settle_quota(Schedule *s, const ScheduleConfig *cfg, int64_t now)
{
	if (cfg->quota == 0)
	{
		if (s->logged.quota_window == 0)
			return;
		/* forget it: what is booked without a quota is not counted */
		open_window(s, 0, 0);
		s->logged.quota_window = 0;
		s->must_log = true;
	}
	else if (s->logged.quota_window != cfg->quota_window_us ||
			 window_start(cfg, s->logged.quota_start) != s->logged.quota_start)
		carry_quota(s, cfg, now);
}

/*
 * ----------------------------------------------------------------
 *		Entering and leaving
 * ----------------------------------------------------------------
 */

void
schedule_init(Schedule *s, int32_t remembered)
{
	memset(s, 0, sizeof(*s));
	s->remembered = remembered;
}

static void
shift(int64_t *t, int64_t by)
{
	if (*t > 0 && *t != SCHEDULE_FOREVER)
		*t = Max64(1, sum(*t, by));
}

/*
 * The wall clock was set: waiters count elapsed time, so the whole schedule
 * moves with it.  This may lower reserved_until, which is safe: every slot told
 * is, in the new clock, at or before the new head.
 */
static void
shift_all(Schedule *s, const ScheduleConfig *cfg, int64_t by, int64_t now)
{
	ScheduleUnlogged *un = &s->un;

	shift(&s->logged.reserved_until, by);
	shift(&s->logged.paused_until, by);
	shift(&un->next_request_at, by);
	shift(&un->next_start, by);
	shift(&un->start_floor, by);
	shift(&un->last_start, by);
	shift(&un->older_since, by);
	shift(&un->older_until, by);
	shift(&un->unseen_until, by);
	for (int i = 0; i < un->nrecent; i++)
		shift(&schedule_entry(s, i)->slot, by);
	if (cfg->quota != 0 && s->logged.quota_window != 0)
		carry_quota(s, cfg, now);
	s->must_log = true;
}

/*
 * Was the wall clock set since the pair was kept?  Between two readings of one
 * kernel the two clocks tell exactly (both are slewed alike, only steps
 * separate them).  Otherwise only a clock behind a time already seen proves a
 * step, back by at least the difference; in another run of the server it is
 * looked for even if the pair could not be read, since logged_at is set anew.
 */
static void
settle_clock(Schedule *s, const ScheduleConfig *cfg, const ScheduleClock *clk, bool stale)
{
	ScheduleUnlogged *un = &s->un;
	int64_t		step = 0;

	if (clk->mono <= 0 && !stale)
		return;
	if (clk->kernel != 0 && clk->kernel == un->clock_kernel && clk->mono >= un->clock_mono)
	{
		step = clk->wall - sum(un->clock_wall, clk->mono - un->clock_mono);
		if (step <= cfg->clock_tolerance_us && step >= -cfg->clock_tolerance_us)
			return;
	}
	else
		step = Min64(0, clk->wall - Max64(s->logged.logged_at, un->clock_wall));

	if (step != 0)
		shift_all(s, cfg, step, clk->wall);
	if (clk->mono <= 0)
		return;
	un->clock_wall = clk->wall;
	un->clock_mono = clk->mono;
	un->clock_kernel = clk->kernel;
}

/*
 * The unlogged half is of another run: the server crashed, was promoted, or
 * the row was restored.  The logged marks stand in.  No start lies after this
 * moment, so next_start can be bounded by it: callers that hold a slot from
 * before need not wait for the whole schedule to pass.
 */
static void
start_over(Schedule *s, const ScheduleClock *clk)
{
	int64_t		head = s->logged.reserved_until;
	int64_t		start = Min64(head, sum(clk->wall, s->logged.start_reach));

	s->un.next_request_at = head;
	s->un.next_start = start;
	s->un.start_floor = start;
	tail_unseen(s);
}

void
schedule_enter(Schedule *s, const ScheduleConfig *cfg, const ScheduleClock *clk, int64_t run)
{
	bool		stale = s->logged.run != run;

	s->must_log = stale;
	if (stale)
	{
		memset(&s->un, 0, sizeof(s->un));
		memset(s->recent, 0, (size_t) s->remembered * sizeof(ScheduleEntry));
		s->un.next_request_at = s->logged.reserved_until;
		s->un.unseen_until = s->logged.reserved_until;
		s->un.quota_used = s->logged.quota_reserved;
		s->logged.run = run;
	}
	settle_clock(s, cfg, clk, stale);
	if (stale)
		start_over(s, clk);
	settle_quota(s, cfg, clk->wall);
}

/*
 * Raise (or, after a release, lower) the logged marks when they no longer cover
 * the unlogged half.  Running reserve_ahead in front of the head makes that
 * rare for a busy source; a crash costs no more than this.
 *
 * With half of it used up they are raised while the ones before cover the head
 * still, so that the log can be flushed before an answer depends on it.  Not
 * with a quota, which has a mark of its own.
 */
bool
schedule_leave(Schedule *s, const ScheduleConfig *cfg, const ScheduleClock *clk)
{
	ScheduleLogged *lg = &s->logged;
	int64_t		ahead = cfg->reserve_ahead_us > cfg->interval_us ? cfg->reserve_ahead_us : 0;
	int64_t		left = lg->reserved_until - s->un.next_request_at;
	bool		covered = !s->must_log && left >= 0 && left <= cfg->reserve_ahead_us &&
		s->un.quota_used <= lg->quota_reserved;

	s->must_log = !covered || (left < ahead / 2 && cfg->quota == 0);
	if (s->must_log)
	{
		s->un.proved_until = covered ? lg->reserved_until : 0;
		lg->reserved_until = sum(s->un.next_request_at, ahead);
		lg->quota_reserved = s->un.quota_used;
		if (cfg->quota > s->un.quota_used)
			lg->quota_reserved = Min64(cfg->quota, s->un.quota_used + ahead / cfg->interval_us);
		lg->logged_at = clk->wall;
	}
	return s->must_log;
}

/*
 * ----------------------------------------------------------------
 *		Starts
 * ----------------------------------------------------------------
 */

/* next_start has moved: the head over bookings is never behind it */
static void
raise_head(Schedule *s)
{
	if (s->un.next_request_at < s->un.next_start)
		s->un.next_request_at = s->un.next_start;
}

static void
take_start(Schedule *s, int64_t start, int64_t width)
{
	s->un.start_floor = sum(Max64(s->un.start_floor, start), width);
	s->un.last_start = Max64(s->un.last_start, start);
}

/* a start takes place now, or at a place assigned to it */
static void
assign_start(Schedule *s, int64_t start, int64_t width)
{
	s->un.next_start = sum(Max64(s->un.next_start, start), width);
	raise_head(s);
}

/* what the start of e takes: a rate made slower since the booking counts */
static int64_t
start_width(const ScheduleConfig *cfg, const ScheduleEntry *e)
{
	int64_t		width;

	if (__builtin_mul_overflow(cfg->interval_us, (int64_t) entry_permits(e), &width))
		width = SCHEDULE_END;
	return Max64(e->width, width);
}

/* every width that reaches next_start is covered by the logged reach first */
static void
cover_reach(Schedule *s, const ScheduleConfig *cfg, int64_t width)
{
	int64_t		reach = sum(tolerance(cfg), width);

	if (s->logged.start_reach < reach)
	{
		s->logged.start_reach = reach;
		s->must_log = true;
	}
}

/* the earliest start that head permits, from t on and after any pause */
static int64_t
earliest(const Schedule *s, const ScheduleConfig *cfg, int64_t head, int64_t t)
{
	return Max64(Max64(t, s->logged.paused_until), sum(head, -tolerance(cfg)));
}

/*
 * A place among the starts that was assigned and then released, earlier than
 * the one at their end: for the next caller that asks to start.  It is not sold
 * as a slot, since another booking may have been told the same one.
 */
static ScheduleEntry *
find_start(Schedule *s, const ScheduleConfig *cfg, int64_t now,
		   int64_t width, int32_t permits, int64_t before)
{
	ScheduleEntry *best = NULL;

	if (before <= now)
		return NULL;
	for (int i = 0; i < s->un.nrecent; i++)
	{
		ScheduleEntry *e = schedule_entry(s, i);

		if (entry_state(e) == ENTRY_HOLE && is_assigned(e) && e->slot > now && e->slot < before &&
			e->slot >= s->logged.paused_until && e->width >= width &&
			(cfg->quota == 0 || entry_permits(e) == permits) &&
			(best == NULL || e->slot < best->slot))
			best = e;
	}
	return best;
}

/*
 * The booking of e is due: start it now, or assign it a later start, in the
 * order of asking.  Returns the start.
 */
static int64_t
start_due(Schedule *s, const ScheduleConfig *cfg, int64_t now, ScheduleEntry *e)
{
	int64_t		width = start_width(cfg, e);
	int32_t		permits = entry_permits(e);
	ScheduleEntry *place;
	int64_t		start;

	cover_reach(s, cfg, width);

	/*
	 * It has a place among the starts.  One that started late has moved the
	 * floor into that place: the rest of it is waited for.  Once the place is
	 * over, it has to ask for another like everybody else.
	 */
	if (is_assigned(e))
	{
		start = quota_start_at(s, cfg, earliest(s, cfg, s->un.start_floor, now),
							   e->slot, permits);
		if (start <= now)
		{
			/* its place is counted in next_start, its lateness is not yet */
			take_start(s, now, width);
			s->un.next_start = Max64(s->un.next_start, s->un.start_floor);
			raise_head(s);
			quota_count_start(s, cfg, now, e->slot, permits);
			e->slot = now;
			return now;
		}
		if (start < sum(e->slot, width))
			return start;
	}

	start = quota_start_at(s, cfg, earliest(s, cfg, s->un.next_start, now), e->slot, permits);
	if ((place = find_start(s, cfg, now, width, permits, start)) != NULL)
	{
		/* counted by the caller that gave it up, in next_start and in the quota */
		start = place->slot;
		unsee(s, entry_index(s, place));
		set_state(place, ENTRY_GONE);
	}
	else
	{
		assign_start(s, start, width);
		quota_count_start(s, cfg, start, e->slot, permits);
	}
	e->slot = start;
	if (start <= now)
		take_start(s, now, width);
	else
		e->word |= ENTRY_ASSIGNED;
	return start;
}

/*
 * A booking that is not remembered: forgotten because there were many, or
 * from before a crash.  It is due; pace it by next_start alone.  If that
 * assigns it a later start and there is room without forgetting a caller, it
 * is remembered from here on, so that it finds its place when it asks again.
 */
static int64_t
start_unremembered(Schedule *s, const ScheduleConfig *cfg, int64_t now,
				   int64_t ticket, int64_t slot)
{
	int64_t		width = cfg->interval_us;
	int64_t		start;

	cover_reach(s, cfg, width);
	start = quota_start_at(s, cfg, earliest(s, cfg, s->un.next_start, now), slot, 1);
	if (ticket > 0 && ticket <= ENTRY_TICKET_MASK && make_room(s, now, FORGET_HOLE))
	{
		ScheduleEntry *e;

		/* not in schedule order: nothing is taken off across it */
		tail_unseen(s);
		e = append(s, now, ticket, start <= now ? ENTRY_STARTED : ENTRY_HELD,
				   start, width, 1, 0);
		if (start > now)
			e->word |= ENTRY_ASSIGNED;
		tail_unseen(s);
	}
	else if (start > now)
		return start;
	else
		s->un.unseen_until = Max64(s->un.unseen_until, start);

	assign_start(s, start, width);
	quota_count_start(s, cfg, start, slot, 1);
	if (start <= now)
		take_start(s, now, width);
	return start;
}

ScheduleAnswer
schedule_confirm(Schedule *s, const ScheduleConfig *cfg, int64_t now,
				 int64_t ticket, int64_t slot, int64_t *wait_us)
{
	ScheduleEntry *e = find_ticket(s, ticket);
	int64_t		start = now;

	*wait_us = 0;
	if (e != NULL)
	{
		if (entry_state(e) == ENTRY_HOLE || entry_state(e) == ENTRY_GONE)
			return SCHEDULE_NOT_HELD;
		if (entry_state(e) != ENTRY_HELD)
			return SCHEDULE_OK;
		slot = e->slot;
	}
	else if (ticket > 0)
		/* it has waited; its slot is not behind the head, which moves with the clock */
		slot = Min64(slot, s->un.next_request_at);

	/* too early: a place among the starts is given to those whose time has come */
	if (slot > now)
	{
		*wait_us = slot - now;
		return SCHEDULE_OK;
	}
	if (s->logged.paused_until == SCHEDULE_FOREVER)
	{
		*wait_us = SCHEDULE_ASK_AGAIN_US;
		return SCHEDULE_OK;
	}

	if (e != NULL)
		start = start_due(s, cfg, now, e);
	else
		start = start_unremembered(s, cfg, now, ticket, slot);

	if (start > now)
	{
		s->un.late++;
		*wait_us = start - now;
		return SCHEDULE_OK;
	}
	if (e != NULL)
		set_state(e, ENTRY_STARTED);
	s->un.confirmed++;
	return SCHEDULE_OK;
}

/*
 * ----------------------------------------------------------------
 *		Booking
 * ----------------------------------------------------------------
 */

int64_t
schedule_waiting(const Schedule *s, int64_t now)
{
	int64_t		n = older_waiting(s, now);

	for (int i = 0; i < s->un.nrecent; i++)
		if (is_waiting(schedule_entry(s, i), now))
			n++;
	return n;
}

int64_t
schedule_quota_left(const Schedule *s, const ScheduleConfig *cfg, int64_t now)
{
	int64_t		t;

	if (cfg->quota == 0)
		return -1;
	t = Max64(earliest(s, cfg, s->un.next_request_at, now), s->logged.quota_start);
	if (window_start(cfg, t) != s->logged.quota_start)
		return cfg->quota;
	return Max64(0, cfg->quota - s->un.quota_used);
}

/*
 * The earliest released place that the booking fits into, before the slot it
 * would get at the end.  Replacing a booking by one that is not wider keeps
 * every rule of spacing, burst and quota.
 */
static ScheduleEntry *
find_hole(Schedule *s, const ScheduleConfig *cfg, int64_t now,
		  int64_t width, int32_t permits, int64_t before)
{
	ScheduleEntry *best = NULL;

	if (before <= now)
		return NULL;
	for (int i = 0; i < s->un.nrecent; i++)
	{
		ScheduleEntry *e = schedule_entry(s, i);

		if (entry_state(e) == ENTRY_HOLE && !is_assigned(e) && e->slot > now && e->slot < before &&
			e->slot >= s->logged.paused_until && e->width >= width &&
			(cfg->quota == 0 || entry_permits(e) == permits) &&
			(best == NULL || e->slot < best->slot))
			best = e;
	}
	return best;
}

/* a repeated key: the booking that it finds, asked for again */
static ScheduleAnswer
book_again(Schedule *s, const ScheduleConfig *cfg, int64_t now,
		   const ScheduleRequest *req, ScheduleEntry *e, ScheduleBooking *out)
{
	int64_t		start = e->slot;

	if (entry_permits(e) != remembered_permits(req->permits))
		return SCHEDULE_KEY_DIFFERS;
	out->ticket = entry_ticket(e);
	if (start <= now)
	{
		if (s->logged.paused_until == SCHEDULE_FOREVER)
		{
			out->slot = SCHEDULE_FOREVER;
			return SCHEDULE_PAUSED;
		}
		start = start_due(s, cfg, now, e);
		set_state(e, start > now ? ENTRY_HELD : ENTRY_STARTED);
		if (start > now)
			s->un.late++;
		else
			s->un.confirmed++;
	}
	out->slot = start;
	out->started = start <= now;
	return SCHEDULE_OK;
}

static ScheduleAnswer
check_limits(const Schedule *s, const ScheduleConfig *cfg, int64_t now,
			 const ScheduleRequest *req, int64_t slot)
{
	int64_t		wait = slot - now;

	if (wait <= 0)
		return SCHEDULE_OK;
	if (req->ticket != 0 && cfg->max_waiting >= 0 &&
		schedule_waiting(s, now) >= cfg->max_waiting)
		return SCHEDULE_FULL;
	if ((cfg->max_wait_us >= 0 && wait > cfg->max_wait_us) ||
		(req->max_wait_us >= 0 && wait > req->max_wait_us))
		return SCHEDULE_TOO_LONG;
	return SCHEDULE_OK;
}

/*
 * Take a hole over: the new booking stands where the released one stood, with
 * its width.  The old ticket stays known as released while there is room.
 */
static void
take_hole(Schedule *s, int64_t now, ScheduleEntry *e, int64_t ticket,
		  int32_t permits, uint64_t key)
{
	ScheduleEntry old = *e;
	uint64_t	kept = e->word & ENTRY_GAP;

	e->word = (uint64_t) ticket << 16 | (uint64_t) remembered_permits(permits) << 6 |
		kept | ENTRY_HELD;
	e->key = key;

	if (make_room(s, now, FORGET_OVER))
	{
		s->un.first = (s->un.first > 0 ? s->un.first : s->remembered) - 1;
		s->un.nrecent++;
		set_state(&old, ENTRY_GONE);
		*schedule_entry(s, 0) = old;
	}
}

ScheduleAnswer
schedule_book(Schedule *s, const ScheduleConfig *cfg, int64_t now,
			  const ScheduleRequest *req, ScheduleBooking *out)
{
	ScheduleUnlogged *un = &s->un;
	ScheduleEntry *e;
	ScheduleAnswer answer;
	int64_t		width;
	int64_t		slot;
	int64_t		head;

	out->ticket = 0;
	out->slot = 0;
	out->started = false;

	if (__builtin_mul_overflow(cfg->interval_us, (int64_t) req->permits, &width) ||
		width > SCHEDULE_END)
		return SCHEDULE_OVERFLOW;
	if (cfg->quota != 0 && req->permits > cfg->quota)
		return SCHEDULE_OVER_QUOTA;
	if ((e = find_key(s, req->key)) != NULL)
		return book_again(s, cfg, now, req, e, out);
	if (s->logged.paused_until == SCHEDULE_FOREVER)
	{
		out->slot = SCHEDULE_FOREVER;
		return SCHEDULE_PAUSED;
	}

	slot = quota_slot(s, cfg, earliest(s, cfg, un->next_request_at, now), req->permits);
	if ((e = find_hole(s, cfg, now, width, req->permits, slot)) != NULL)
		slot = e->slot;
	out->slot = slot;
	if ((answer = check_limits(s, cfg, now, req, slot)) != SCHEDULE_OK)
		return answer;

	un->booked++;
	un->waited_us = sum(un->waited_us, slot - now);
	if (req->ticket != 0)
		out->ticket = unused_ticket(s, req->ticket);

	if (e != NULL)
	{
		if (req->ticket != 0)
			take_hole(s, now, e, out->ticket, req->permits, req->key);
		else
		{
			/* the place is the appointment's, which no entry stands for */
			unsee(s, entry_index(s, e));
			set_state(e, ENTRY_GONE);
		}
		return SCHEDULE_OK;
	}

	if (__builtin_add_overflow(Max64(un->next_request_at, slot), width, &head) ||
		head > SCHEDULE_END)
		return SCHEDULE_OVERFLOW;
	un->next_request_at = head;
	quota_count(s, cfg, slot, req->permits);
	if (req->ticket == 0)
	{
		/* an appointment is not remembered, so that many evict nobody */
		un->unseen_until = Max64(un->unseen_until, slot);
		tail_unseen(s);
		return SCHEDULE_OK;
	}

	out->started = slot <= now;
	append(s, now, out->ticket, out->started ? ENTRY_IMMEDIATE : ENTRY_HELD,
		   slot, width, req->permits, req->key);
	if (out->started)
	{
		cover_reach(s, cfg, width);
		assign_start(s, now, width);
		take_start(s, now, width);
	}
	return SCHEDULE_OK;
}

/*
 * ----------------------------------------------------------------
 *		Release
 * ----------------------------------------------------------------
 */

/* may the place of entry i be taken off the end of the schedule? */
static bool
can_rewind(const Schedule *s, const ScheduleConfig *cfg, int i)
{
	const ScheduleEntry *e = schedule_entry(s, i);

	/* an assigned place is one of next_start's as well, which does not go back */
	return !is_assigned(e) &&
		(cfg->quota == 0 || e->slot >= s->logged.quota_start);
}

/* take released places off the end of the schedule, from entry i on */
static void
rewind_tail(Schedule *s, const ScheduleConfig *cfg, int i)
{
	ScheduleUnlogged *un = &s->un;

	while (i >= 0 && entry_state(schedule_entry(s, i)) == ENTRY_HOLE && can_rewind(s, cfg, i))
	{
		ScheduleEntry *e = schedule_entry(s, i);

		un->next_request_at = sum(un->next_request_at, -e->width);
		if (cfg->quota != 0)
			un->quota_used = Max64(0, un->quota_used - entry_permits(e));
		set_state(e, ENTRY_GONE);
		if (e->word & ENTRY_GAP)
		{
			tail_unseen(s);
			break;
		}
		i = scheduled_before(s, i);
	}
	raise_head(s);
}

ScheduleRelease
schedule_release(Schedule *s, const ScheduleConfig *cfg, int64_t now, int64_t ticket)
{
	ScheduleEntry *e = find_ticket(s, ticket);
	int			last = scheduled_before(s, (int) s->un.nrecent);

	if (e == NULL || entry_state(e) == ENTRY_HOLE || entry_state(e) == ENTRY_GONE)
		return RELEASE_UNKNOWN;
	if (entry_state(e) != ENTRY_HELD)
		return RELEASE_STARTED;
	if (e->slot <= now)
		return RELEASE_PASSED;

	set_state(e, ENTRY_HOLE);
	s->un.released++;
	if (e == schedule_entry(s, last) && !(s->un.flags & SCHEDULE_TAIL_UNSEEN))
		rewind_tail(s, cfg, last);
	return RELEASE_RELEASED;
}

/*
 * ----------------------------------------------------------------
 *		Pause, resume, advance, rewind
 * ----------------------------------------------------------------
 */

/* the entries that hold a place ahead, by slot; returns how many */
static int
places_ahead(Schedule *s, int64_t now, ScheduleEntry **order)
{
	int			n = 0;

	for (int i = 0; i < s->un.nrecent; i++)
	{
		ScheduleEntry *e = schedule_entry(s, i);
		int			k;

		if (e->slot <= now || (entry_state(e) != ENTRY_HELD && entry_state(e) != ENTRY_HOLE))
			continue;
		for (k = n++; k > 0 && order[k - 1]->slot > e->slot; k--)
			order[k] = order[k - 1];
		order[k] = e;
	}
	return n;
}

/*
 * Under a quota places that move are counted anew.  What the window of "start"
 * holds beside them: nothing if it is later than the latest with a booking; if
 * it is earlier what the entries say, or, where they do not reach back so far,
 * no more than the quota.
 */
static int64_t
counted_beside(const Schedule *s, const ScheduleConfig *cfg, int64_t start,
			   ScheduleEntry *const *order, const int64_t *old_slot, int n)
{
	int64_t		used = start == s->logged.quota_start ? s->un.quota_used : cfg->quota;

	if (start > s->logged.quota_start)
		return 0;
	if (start < s->logged.quota_start && start > s->un.unseen_until)
	{
		int64_t		end = sum(start, cfg->quota_window_us);

		used = permits_between(s, start, end);
		for (int k = 0; k < n; k++)
			if (order[k]->slot >= start && order[k]->slot < end)
				used -= entry_permits(order[k]);
		return used;
	}
	for (int k = 0; k < n; k++)
		if (window_start(cfg, old_slot[k]) == start)
			used -= entry_permits(order[k]);
	return Max64(0, used);
}

/*
 * The next window that may have room: of those that nothing is known of only
 * such as places move out of.  So there are no more steps than entries.
 */
static int64_t
next_window(const Schedule *s, const ScheduleConfig *cfg, int64_t window,
			const int64_t *old_slot, int n)
{
	int64_t		next = sum(window, cfg->quota_window_us);
	int64_t		known;

	if (next >= s->logged.quota_start || next > s->un.unseen_until)
		return next;
	known = Min64(sum(window_start(cfg, s->un.unseen_until), cfg->quota_window_us),
				  s->logged.quota_start);
	for (int k = 0; k < n; k++)
		if (old_slot[k] >= next)
			known = Min64(known, window_start(cfg, old_slot[k]));
	return known;
}

/*
 * Move every place that is still ahead by "by", and from where a window is full
 * on by more.  Returns by how much the last one moved.
 */
static int64_t
move_ahead(Schedule *s, const ScheduleConfig *cfg, int64_t now, int64_t by)
{
	ScheduleEntry *order[SCHEDULE_MAX_REMEMBERED];
	int64_t		old_slot[SCHEDULE_MAX_REMEMBERED];
	int			n = places_ahead(s, now, order);
	int64_t		window = INT64_MIN;
	int64_t		used = 0;
	bool		assigned = false;

	for (int k = 0; k < n; k++)
		old_slot[k] = order[k]->slot;
	for (int k = 0; k < n; k++)
	{
		ScheduleEntry *e = order[k];

		e->slot = sum(old_slot[k], by);
		assigned |= is_assigned(e);
		if (cfg->quota == 0)
			continue;
		for (;;)
		{
			if (window_start(cfg, e->slot) != window)
			{
				window = window_start(cfg, e->slot);
				used = counted_beside(s, cfg, window, order, old_slot, n);
			}
			if (used == 0 || used + entry_permits(e) <= cfg->quota || e->slot >= SCHEDULE_END)
				break;
			e->slot = next_window(s, cfg, window, old_slot, n);
		}
		used += entry_permits(e);
		by = e->slot - old_slot[k];
	}
	if (n > 0 && cfg->quota != 0 && window >= s->logged.quota_start)
		open_window(s, window, used);
	if (assigned)
		s->un.next_start = sum(s->un.next_start, by);
	return by;
}

ScheduleAnswer
schedule_pause(Schedule *s, const ScheduleConfig *cfg, int64_t now, int64_t until)
{
	ScheduleUnlogged *un = &s->un;
	int64_t		first = INT64_MAX;

	if (until != SCHEDULE_FOREVER && until > SCHEDULE_END)
		return SCHEDULE_OVERFLOW;
	if (until <= s->logged.paused_until)
		return SCHEDULE_OK;
	s->logged.paused_until = until;
	s->must_log = true;
	if (until == SCHEDULE_FOREVER)
		return SCHEDULE_OK;

	for (int i = 0; i < un->nrecent; i++)
		if (is_waiting(schedule_entry(s, i), now))
			first = Min64(first, schedule_entry(s, i)->slot);
	if (first < until)
	{
		int64_t		by = until - first;

		if (un->next_request_at > SCHEDULE_END - by)
			return SCHEDULE_OVERFLOW;
		by = move_ahead(s, cfg, now, by);
		un->next_request_at = sum(un->next_request_at, by);
		if (un->older_until > now)
		{
			un->unseen_until = Max64(un->unseen_until, un->older_until);
			un->older_since = sum(un->older_since, by);
			un->older_until = sum(un->older_until, by);
		}
		raise_head(s);
	}
	return SCHEDULE_OK;
}

/* moved slots stay where they are */
void
schedule_resume(Schedule *s)
{
	if (s->logged.paused_until != 0)
		s->must_log = true;
	s->logged.paused_until = 0;
}

void
schedule_advance(Schedule *s, int64_t to)
{
	if (to <= s->un.next_request_at)
		return;
	s->un.next_request_at = Min64(to, SCHEDULE_END);
	tail_unseen(s);
	s->must_log = true;
}

/*
 * Breaks the promise that no slot is given twice, on purpose: what was booked
 * after "to" is forgotten, starts and quota included.
 */
void
schedule_rewind(Schedule *s, int64_t to)
{
	ScheduleUnlogged *un = &s->un;

	un->next_request_at = Min64(un->next_request_at, to);
	un->next_start = Min64(un->next_start, to);
	un->start_floor = Min64(un->start_floor, to);
	un->older_count = 0;
	un->nrecent = 0;
	un->first = 0;
	memset(s->recent, 0, (size_t) s->remembered * sizeof(ScheduleEntry));
	un->flags = 0;
	un->unseen_until = to;
	open_window(s, 0, 0);
	s->logged.quota_window = 0;
	s->must_log = true;
}
