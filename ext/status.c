/*
 * status.c - the rows of pacer.status
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xlog.h"
#include "compat.h"
#include "funcapi.h"
#include "interval_us.h"
#include "miscadmin.h"
#include "slot_row.h"
#include "source_cache.h"
#include "status.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* columns of source_status() */
enum
{
	STATUS_NAME,
	STATUS_INTERVAL,
	STATUS_BURST,
	STATUS_MAX_WAITING,
	STATUS_MAX_WAIT,
	STATUS_QUOTA,
	STATUS_QUOTA_WINDOW,
	STATUS_QUOTA_ORIGIN,
	STATUS_REMEMBERED,
	STATUS_NEXT_REQUEST_AT,
	STATUS_WAITING,
	STATUS_PAUSED_UNTIL,
	STATUS_QUOTA_LEFT,
	STATUS_LAST_START,
	STATUS_LAST_USED_BEFORE,
	STATUS_BOOKED,
	STATUS_REFUSED,
	STATUS_RELEASED,
	STATUS_CONFIRMED,
	STATUS_LATE,
	STATUS_WAITED,
	STATUS_RUN_OK,
	STATUS_COLUMNS
};

typedef struct StatusRow
{
	Datum		value[STATUS_COLUMNS];
	bool		null[STATUS_COLUMNS];
} StatusRow;

static void
put(StatusRow *row, int column, Datum value)
{
	row->value[column] = value;
	row->null[column] = false;
}

/* a time of 0 is "never" */
static void
put_time(StatusRow *row, int column, int64 t)
{
	if (t > 0)
		put(row, column, TimestampTzGetDatum(t));
}

static void
put_interval(StatusRow *row, int column, int64 us)
{
	if (us >= 0)
		put(row, column, IntervalPGetDatum(interval_from_us(us)));
}

/* on a copy, no lock is held: may allocate */
static SlotVerdict
verb_status(Schedule *s, const ScheduleConfig *cfg, int64 now, void *ptr)
{
	StatusRow  *row = ptr;

	put_interval(row, STATUS_INTERVAL, cfg->interval_us);
	put(row, STATUS_BURST, Int32GetDatum(cfg->burst));
	if (cfg->max_waiting >= 0)
		put(row, STATUS_MAX_WAITING, Int32GetDatum(cfg->max_waiting));
	put_interval(row, STATUS_MAX_WAIT, cfg->max_wait_us);
	if (cfg->quota > 0)
	{
		put(row, STATUS_QUOTA, Int32GetDatum(cfg->quota));
		put_interval(row, STATUS_QUOTA_WINDOW, cfg->quota_window_us);
		put(row, STATUS_QUOTA_LEFT, Int32GetDatum((int32) schedule_quota_left(s, cfg, now)));
	}
	put(row, STATUS_QUOTA_ORIGIN, TimestampTzGetDatum(cfg->quota_origin_us));
	put(row, STATUS_REMEMBERED, Int32GetDatum(s->remembered));

	put_time(row, STATUS_NEXT_REQUEST_AT, s->un.next_request_at);
	put(row, STATUS_WAITING, Int64GetDatum(schedule_waiting(s, now)));
	if (s->logged.paused_until > now)
		put_time(row, STATUS_PAUSED_UNTIL, s->logged.paused_until);
	put_time(row, STATUS_LAST_START, s->un.last_start);
	put_time(row, STATUS_LAST_USED_BEFORE, s->logged.reserved_until);
	put(row, STATUS_BOOKED, Int64GetDatum(s->un.booked));
	put(row, STATUS_REFUSED, Int64GetDatum(s->un.refused));
	put(row, STATUS_RELEASED, Int64GetDatum(s->un.released));
	put(row, STATUS_CONFIRMED, Int64GetDatum(s->un.confirmed));
	put(row, STATUS_LATE, Int64GetDatum(s->un.late));
	put_interval(row, STATUS_WAITED, s->un.waited_us);
	return SLOT_DROP;
}

/* a source that is deleted meanwhile is left out */
static void
put_source(FunctionCallInfo fcinfo, const text *name)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	StatusRow	row;
	bool		believed;

	memset(row.null, true, sizeof(row.null));
	if (!slot_row_read(fcinfo, name, verb_status, &row, &believed))
		return;
	put(&row, STATUS_NAME, PointerGetDatum(name));
	if (!RecoveryInProgress())
		put(&row, STATUS_RUN_OK, BoolGetDatum(believed));
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.value, row.null);
}

/*
 * Every source that the statement sees, by name.  Not a SQL query over
 * pacer.slot: that would read rows while they change, and hold a lock on the
 * table until the end of the caller's transaction.
 */
static void
put_all(FunctionCallInfo fcinfo)
{
	const PacerRelations *relations = source_cache_relations(fcinfo->flinfo->fn_oid);
	Relation	rel = table_open(relations->source, AccessShareLock);
	Relation	index = index_open(relations->source_pkey, AccessShareLock);
	SysScanDesc scan = systable_beginscan_ordered(rel, index, GetActiveSnapshot(), 0, NULL);
	MemoryContext per_row = AllocSetContextCreate(CurrentMemoryContext, "pacer.status row",
												  ALLOCSET_DEFAULT_SIZES);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext_ordered(scan, ForwardScanDirection)))
	{
		bool		null;
		Datum		name = heap_getattr(tuple, SOURCE_NAME, RelationGetDescr(rel), &null);
		MemoryContext caller = MemoryContextSwitchTo(per_row);

		/* not around the scan, which allocates things of its own as it goes */
		put_source(fcinfo, DatumGetTextPP(name));
		MemoryContextSwitchTo(caller);
		MemoryContextReset(per_row);
		CHECK_FOR_INTERRUPTS();
	}
	MemoryContextDelete(per_row);
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	table_close(rel, AccessShareLock);
}

void
status_rows(FunctionCallInfo fcinfo, const text *source)
{
	InitMaterializedSRF(fcinfo, 0);
	if (source != NULL)
		put_source(fcinfo, source);
	else
		put_all(fcinfo);
}
