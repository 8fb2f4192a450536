/*
 * peer.c - what a set-returning C function costs that only returns a booking
 *
 * The limit that pacer.book() is measured against: same arguments, same row,
 * no source, no schedule, no log.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(peer_row);

Datum
peer_row(PG_FUNCTION_ARGS)
{
	TupleDesc	desc = lookup_rowtype_tupdesc(get_fn_expr_rettype(fcinfo->flinfo), -1);
	Interval	wait = {.time = 1234567};
	bool		null[5] = {false};
	Datum		value[5];
	HeapTuple	tuple;

	value[0] = PointerGetDatum(PG_GETARG_TEXT_PP(0));
	value[1] = Int64GetDatum(INT64CONST(123456789012345));
	value[2] = TimestampTzGetDatum(GetCurrentTimestamp());
	value[3] = IntervalPGetDatum(&wait);
	value[4] = Float8GetDatum(1235.0);
	tuple = heap_form_tuple(desc, value, null);
	ReleaseTupleDesc(desc);
	return HeapTupleGetDatum(tuple);
}
