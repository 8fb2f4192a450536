/*
 * slot_row.h - run a verb of the schedule on a source's row
 */
#ifndef PACER_SLOT_ROW_H
#define PACER_SLOT_ROW_H

#include "fmgr.h"
#include "schedule.h"

typedef enum SlotVerdict
{
	SLOT_KEEP,					/* write the new state */
	SLOT_DROP,					/* nothing happened */
	SLOT_REFUSE					/* nothing happened but a refusal, to be counted */
} SlotVerdict;

/*
 * A verb.  Runs under the buffer's lock: it must not allocate, raise, sleep or
 * look at anything but its arguments.  It may be run again from the start.
 */
typedef SlotVerdict (*SlotVerb) (Schedule *s, const ScheduleConfig *cfg, int64 now, void *arg);

/* GUCs, in milliseconds */
extern int	slot_row_reserve_ahead;
extern int	slot_row_clock_tolerance;

/*
 * Run verb on the source's row in place, and return when what it wrote is as
 * durable as a commit would be.  command: what to call it in an error, "book()".
 * with_commit: the result need not be durable before this transaction's commit,
 * if that writes anything.
 *
 * Raises before anything is changed: 42704 no such source, 25006 read only,
 * 55000 the tables are not as they should be.  Waits for the buffer's lock, for
 * the log and, as configured, for a standby; never for a transaction.
 */
extern void slot_row_apply(FunctionCallInfo fcinfo, const text *source, const char *command,
						   SlotVerb verb, void *arg, bool with_commit);

/*
 * Run verb on a copy; nothing is written.  Works in recovery.  *believed:
 * whether the unlogged half is of this run.  False if there is no such source.
 */
extern bool slot_row_read(FunctionCallInfo fcinfo, const text *source,
						  SlotVerb verb, void *arg, bool *believed);

/* raises 42704 */
extern void slot_row_no_source(const text *source);

#endif							/* PACER_SLOT_ROW_H */
