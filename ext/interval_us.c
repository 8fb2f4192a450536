/*
 * interval_us.c - intervals as microseconds
 */
#include "postgres.h"

#include <limits.h>

#include "common/int.h"
#include "interval_us.h"

/* 17 has infinite intervals, made of the extremes of all three fields */
bool
interval_is_infinite(const Interval *in)
{
#ifdef INTERVAL_NOT_FINITE
	return INTERVAL_NOT_FINITE(in);
#else
	(void) in;
	return false;
#endif
}

bool
interval_to_us(const Interval *in, int64 *us)
{
	int64		days;

	return in->month == 0 && !interval_is_infinite(in) &&
		!pg_mul_s64_overflow(in->day, USECS_PER_DAY, &days) &&
		!pg_add_s64_overflow(days, in->time, us);
}

Interval *
interval_from_us(int64 us)
{
	Interval   *result = palloc0(sizeof(Interval));

	result->time = us;
	return result;
}
