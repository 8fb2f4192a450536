/*
 * source_trigger.c - the triggers of pacer.source
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "commands/trigger.h"
#include "compat.h"
#include "interval_us.h"
#include "schedule.h"
#include "source_cache.h"
#include "source_trigger.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#define MAX_QUOTA_WINDOW_DAYS	36525

typedef struct SourceRow
{
	HeapTuple	tuple;
	TupleDesc	desc;
	const char *name;
} SourceRow;

static void
bad_value(const SourceRow *row, const char *column, const char *rule)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s of source \"%s\" %s", column, row->name, rule)));
}

static void
check_name(SourceRow *row)
{
	bool		null;
	Datum		value = heap_getattr(row->tuple, SOURCE_NAME, row->desc, &null);

	if (null)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("source must not be null")));
	row->name = TextDatumGetCString(value);
	if (row->name[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("name of a source must not be empty")));
	if (strlen(row->name) > SOURCE_NAME_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("name of a source must not be longer than %d bytes", SOURCE_NAME_MAX),
				 errdetail("\"%s\" has %zu bytes.", row->name, strlen(row->name))));
}

/* true if there is one; *us is at least "least" */
static bool
check_interval(const SourceRow *row, SourceColumn column, const char *name, int64 least, int64 *us)
{
	bool		null;
	Datum		value = heap_getattr(row->tuple, column, row->desc, &null);
	const Interval *in;

	if (null)
		return false;
	in = DatumGetIntervalP(value);
	if (interval_is_infinite(in))
		bad_value(row, name, "must not be infinite");
	if (in->month != 0)
		bad_value(row, name, "must not have months or years, whose lengths vary");
	if (!interval_to_us(in, us))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("%s of source \"%s\" is out of range", name, row->name)));
	if (*us < least)
		bad_value(row, name, least == 0 ? "must not be negative" : "must be at least 1 microsecond");
	return true;
}

/* true if there is one; *n lies within the bounds */
static bool
check_int(const SourceRow *row, SourceColumn column, const char *name, int32 least, int32 most,
		  int32 *n)
{
	bool		null;
	Datum		value = heap_getattr(row->tuple, column, row->desc, &null);

	if (null)
		return false;
	*n = DatumGetInt32(value);
	if (*n < least || *n > most)
		bad_value(row, name, most == PG_INT32_MAX ? psprintf("must be at least %d, not %d", least, *n) :
				  psprintf("must be between %d and %d, not %d", least, most, *n));
	return true;
}

static void
check_quota(const SourceRow *row, int64 *window, bool *has_window)
{
	int32		quota;
	bool		null;
	Datum		origin = heap_getattr(row->tuple, SOURCE_QUOTA_ORIGIN, row->desc, &null);

	if (null || TIMESTAMP_NOT_FINITE(DatumGetTimestampTz(origin)))
		bad_value(row, "quota_origin", "must be a finite time");
	*has_window = check_interval(row, SOURCE_QUOTA_WINDOW, "quota_window", 1, window);
	if (check_int(row, SOURCE_QUOTA, "quota", 1, PG_INT32_MAX, &quota) != *has_window)
		bad_value(row, "quota", "must be given with quota_window, or neither");
	if (*has_window && *window > MAX_QUOTA_WINDOW_DAYS * USECS_PER_DAY)
		bad_value(row, "quota_window",
				  psprintf("must be at most %d days", MAX_QUOTA_WINDOW_DAYS));
}

static void
check_fixed(const SourceRow *row, HeapTuple old, SourceColumn column, const char *name)
{
	bool		null;

	if (heap_getattr(row->tuple, column, row->desc, &null) !=
		heap_getattr(old, column, row->desc, &null))
		bad_value(row, name, "is fixed at its creation");
}

Datum
source_trigger_check(FunctionCallInfo fcinfo)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	SourceRow	row = {0};
	int			column[3] = {SOURCE_INTERVAL, SOURCE_MAX_WAIT, SOURCE_QUOTA_WINDOW};
	int64		us[3] = {0};
	bool		given[3];
	Datum		value[3];
	bool		null[3];
	int32		n;
	bool		update;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_FOR_ROW(trigger->tg_event) ||
		!TRIGGER_FIRED_BEFORE(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("source_check() must be called as a trigger before each row")));

	update = TRIGGER_FIRED_BY_UPDATE(trigger->tg_event);
	row.tuple = update ? trigger->tg_newtuple : trigger->tg_trigtuple;
	row.desc = RelationGetDescr(trigger->tg_relation);

	check_name(&row);
	given[0] = check_interval(&row, SOURCE_INTERVAL, "start_interval", 1, &us[0]);
	if (!given[0])
		bad_value(&row, "start_interval", "must not be null");
	if (!check_int(&row, SOURCE_BURST, "burst", 1, PG_INT32_MAX, &n))
		bad_value(&row, "burst", "must not be null");
	(void) check_int(&row, SOURCE_MAX_WAITING, "max_waiting", 0, PG_INT32_MAX, &n);
	given[1] = check_interval(&row, SOURCE_MAX_WAIT, "max_wait", 0, &us[1]);
	if (!check_int(&row, SOURCE_REMEMBERED, "remembered", SCHEDULE_MIN_REMEMBERED,
				   SCHEDULE_MAX_REMEMBERED, &n))
		bad_value(&row, "remembered", "must not be null");
	check_quota(&row, &us[2], &given[2]);
	if (update)
	{
		check_fixed(&row, trigger->tg_trigtuple, SOURCE_REMEMBERED, "remembered");
		check_fixed(&row, trigger->tg_trigtuple, SOURCE_ID, "source_id");
	}

	for (int i = 0; i < 3; i++)
	{
		null[i] = !given[i];
		value[i] = given[i] ? IntervalPGetDatum(interval_from_us(us[i])) : (Datum) 0;
	}
	return PointerGetDatum(heap_modify_tuple_by_cols(row.tuple, row.desc, 3, column, value, null));
}

Datum
source_trigger_changed(FunctionCallInfo fcinfo)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("source_changed() must be called as a trigger")));
	CacheInvalidateRelcache(trigger->tg_relation);
	return PointerGetDatum(NULL);
}
