/*
 * interval_us.h - intervals as microseconds
 */
#ifndef PACER_INTERVAL_US_H
#define PACER_INTERVAL_US_H

#include "utils/timestamp.h"

/*
 * The length in microseconds, a day being 24 hours.  False if it has months,
 * is infinite or does not fit.
 */
extern bool interval_to_us(const Interval *in, int64 *us);
extern bool interval_is_infinite(const Interval *in);
extern Interval *interval_from_us(int64 us);

#endif							/* PACER_INTERVAL_US_H */
