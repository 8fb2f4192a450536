/*
 * schedule.h - the arithmetic of a source's schedule
 *
 * Pure: (configuration, state, clock reading, request) -> (state, answer).
 * No PostgreSQL header, no clock, no allocation, no I/O, nothing that can fail
 * but by its return value.  The server runs it on a copy of a row of
 * pacer.slot, the client library on memory of its own.
 *
 * The rule, for a burst of 1:
 *
 *		slot            = greatest(next_request_at, now)
 *		next_request_at = slot + interval
 *
 * and in general the virtual scheduling form of the generic cell rate
 * algorithm (ITU-T I.371, annex A) with next_request_at as the theoretical
 * arrival time and a tolerance of (burst - 1) * interval.
 *
 * Times are int64 microseconds since one epoch of the caller's choice; 0 and
 * before mean "never".  A call that is not answered SCHEDULE_OK (or by a
 * release outcome) may leave its state half changed: work on a copy, and keep
 * it only when the answer says so.
 */
#ifndef PACER_SCHEDULE_H
#define PACER_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

/* the last instant PostgreSQL's timestamptz can hold, 294276-12-31; no head goes beyond */
#define SCHEDULE_END			INT64_C(9223371331199999999)
/* paused_until of a source that stays paused until it is resumed: 'infinity' */
#define SCHEDULE_FOREVER		INT64_MAX

#define SCHEDULE_MIN_REMEMBERED	4
#define SCHEDULE_MAX_REMEMBERED	200

/* what confirm() answers under a pause without end: ask again then */
#define SCHEDULE_ASK_AGAIN_US	INT64_C(60000000)

typedef struct ScheduleConfig
{
	int64_t		interval_us;	/* > 0 */
	int32_t		burst;			/* >= 1 */
	int32_t		max_waiting;	/* -1: no bound */
	int64_t		max_wait_us;	/* -1: no bound */
	int32_t		quota;			/* starts per window, 0: no quota */
	int64_t		quota_window_us;	/* at most 36525 days */
	int64_t		quota_origin_us;	/* a window begins here; any sign */
	int64_t		reserve_ahead_us;	/* how far the logged mark runs ahead */
	int64_t		clock_tolerance_us; /* a larger difference is a clock step */
} ScheduleConfig;

/*
 * One reading of both clocks.  mono = 0: the two could not be read at one
 * instant, do not compare them this time.  kernel = 0: nothing tells one run
 * of the operating system from another, mono is never compared.
 */
typedef struct ScheduleClock
{
	int64_t		wall;
	int64_t		mono;
	int64_t		kernel;
} ScheduleClock;

/*
 * The logged half: true after every crash.  64-bit words only, since a
 * generic WAL record is a byte-wise delta that may bridge up to 4 unchanged
 * bytes; a word of the other half must never lie inside such a bridge.
 */
typedef struct ScheduleLogged
{
	int64_t		reserved_until; /* >= next_request_at of every booking told */
	int64_t		paused_until;	/* nobody starts before; SCHEDULE_FOREVER */
	int64_t		quota_start;	/* the latest window with a booking */
	int64_t		quota_window;	/* the length it was counted under, 0: none */
	int64_t		quota_reserved; /* >= quota_used */
	int64_t		start_reach;	/* >= next_start - start after any start */
	int64_t		logged_at;		/* wall clock when this half was logged */
	int64_t		run;			/* the run of the server in which the other half is true */
	int64_t		spare1;
	int64_t		spare2;
} ScheduleLogged;

/* The unlogged half: true only while logged.run is the mark of this run. */
typedef struct ScheduleUnlogged
{
	/* what every booking changes comes first, within 64 bytes */
	int64_t		next_request_at;	/* head over bookings */
	int64_t		next_start;		/* head over starts, assigned ones included */
	int64_t		start_floor;	/* head over starts that took place */
	int64_t		last_start;
	int64_t		unseen_until;	/* the latest slot no entry stands for */
	int64_t		nrecent;		/* entries in use */
	int64_t		first;			/* where the oldest of them stands in the ring */
	int64_t		booked;			/* counter, of this run, as those below */
	int64_t		quota_used;		/* starts counted in the window of quota_start */
	int64_t		clock_wall;		/* the pair of clocks steps are measured by */
	int64_t		clock_mono;
	int64_t		clock_kernel;
	int64_t		reserved_lsn;	/* kept for the server: the record that proves reserved_until */
	int64_t		proved_until;	/* a head up to here is proved by the record before that, 0: none is */
	int64_t		proved_lsn;		/* kept for the server: that record */
	int64_t		older_count;	/* held bookings no longer remembered ... */
	int64_t		older_since;	/* ... from here ... */
	int64_t		older_until;	/* ... to here */
	int64_t		flags;			/* SCHEDULE_TAIL_UNSEEN */
	int64_t		refused;
	int64_t		released;
	int64_t		confirmed;
	int64_t		late;			/* due bookings that confirm told to wait */
	int64_t		waited_us;		/* sum of the waits given */
	int64_t		spare1;
	int64_t		spare2;
} ScheduleUnlogged;

/* the last booking on the schedule is not the last entry */
#define SCHEDULE_TAIL_UNSEEN	1

/*
 * A remembered booking.  Entries stand in a ring, in the order in which their
 * bookings lie on the schedule.  word = ticket (48 bits) << 16 | permits (10, saturating)
 * << 6 | spare | assigned | gap | state (3).
 */
typedef struct ScheduleEntry
{
	uint64_t	word;
	int64_t		slot;
	int64_t		width;			/* what the booking took from the schedule */
	uint64_t	key;			/* hash of the caller's key, 0: none */
} ScheduleEntry;

typedef enum ScheduleEntryState
{
	ENTRY_HELD = 1,				/* booked, not yet started (its slot may have passed) */
	ENTRY_IMMEDIATE,			/* started when it was booked */
	ENTRY_STARTED,				/* confirmed */
	ENTRY_HOLE,					/* released, its place is on the schedule still */
	ENTRY_GONE					/* released, its place rewound or taken over */
} ScheduleEntryState;

#define ENTRY_MAX_PERMITS		1023
#define ENTRY_TICKET_MASK		((INT64_C(1) << 48) - 1)

#define entry_state(e)			((ScheduleEntryState) ((e)->word & 7))
#define entry_permits(e)		((int32_t) (((e)->word >> 6) & ENTRY_MAX_PERMITS))
#define entry_ticket(e)			((int64_t) ((e)->word >> 16))

typedef struct Schedule
{
	ScheduleLogged logged;
	ScheduleUnlogged un;
	int32_t		remembered;		/* entries there is room for */
	bool		must_log;		/* the logged half changed; see schedule_leave */
	ScheduleEntry recent[SCHEDULE_MAX_REMEMBERED];
} Schedule;

/* entry i in schedule order, 0 being the oldest */
static inline ScheduleEntry *
schedule_entry(const Schedule *s, int i)
{
	int			at = (int) s->un.first + i;

	return (ScheduleEntry *) &s->recent[at < s->remembered ? at : at - s->remembered];
}

typedef enum ScheduleAnswer
{
	SCHEDULE_OK,
	SCHEDULE_FULL,				/* max_waiting callers wait already */
	SCHEDULE_TOO_LONG,			/* the slot lies beyond max_wait */
	SCHEDULE_PAUSED,			/* paused without end */
	SCHEDULE_OVERFLOW,			/* beyond SCHEDULE_END */
	SCHEDULE_OVER_QUOTA,		/* more permits than a window has */
	SCHEDULE_KEY_DIFFERS,		/* the key's booking has other permits */
	SCHEDULE_NOT_HELD			/* confirm: the ticket was released */
} ScheduleAnswer;

typedef enum ScheduleRelease
{
	RELEASE_RELEASED,			/* this call gave the slot back */
	RELEASE_STARTED,
	RELEASE_PASSED,				/* its time came, nobody confirmed it */
	RELEASE_UNKNOWN				/* never seen, forgotten or released before */
} ScheduleRelease;

typedef struct ScheduleRequest
{
	int32_t		permits;		/* >= 1 */
	int64_t		max_wait_us;	/* -1: no bound but the source's */
	uint64_t	key;			/* 0: none */
	int64_t		ticket;			/* random, 1 .. ENTRY_TICKET_MASK; 0: an appointment */
} ScheduleRequest;

typedef struct ScheduleBooking
{
	int64_t		ticket;
	int64_t		slot;			/* on a refusal: the earliest that could be had */
	bool		started;		/* recorded as a start: no confirm is needed */
} ScheduleBooking;

/* a new, empty state */
extern void schedule_init(Schedule *s, int32_t remembered);

/*
 * Every verb is enter, one of the calls between, leave.  enter() settles what
 * happened since the last call: another run of the server, a clock step,
 * another quota.  leave() returns true when the logged half must reach the log,
 * and fills it.  The answer needs that record to be durable, or only the one
 * before it, if schedule_proved_before().
 */
extern void schedule_enter(Schedule *s, const ScheduleConfig *cfg,
						   const ScheduleClock *clk, int64_t run);
extern bool schedule_leave(Schedule *s, const ScheduleConfig *cfg,
						   const ScheduleClock *clk);

static inline bool
schedule_proved_before(const ScheduleUnlogged *un)
{
	return un->proved_until > 0 && un->next_request_at <= un->proved_until;
}

extern ScheduleAnswer schedule_book(Schedule *s, const ScheduleConfig *cfg, int64_t now,
									const ScheduleRequest *req, ScheduleBooking *out);
extern ScheduleRelease schedule_release(Schedule *s, const ScheduleConfig *cfg,
										int64_t now, int64_t ticket);

/*
 * *wait_us = 0: start now, the start is recorded.  ticket 0 is an appointment,
 * known by its slot alone.  slot 0: not known.
 */
extern ScheduleAnswer schedule_confirm(Schedule *s, const ScheduleConfig *cfg, int64_t now,
									   int64_t ticket, int64_t slot, int64_t *wait_us);

/* until = SCHEDULE_FOREVER: until resumed.  A pause only ever extends. */
extern ScheduleAnswer schedule_pause(Schedule *s, const ScheduleConfig *cfg, int64_t now,
									 int64_t until);
extern void schedule_resume(Schedule *s);
extern void schedule_advance(Schedule *s, int64_t to);
extern void schedule_rewind(Schedule *s, int64_t to);

/* callers that hold a slot still ahead: exact for the remembered ones */
extern int64_t schedule_waiting(const Schedule *s, int64_t now);
/* starts left in the window of the earliest slot, -1: no quota */
extern int64_t schedule_quota_left(const Schedule *s, const ScheduleConfig *cfg, int64_t now);

#endif							/* PACER_SCHEDULE_H */
