/*
 * pacer_clock.h - one reading of the wall clock and the elapsed time
 */
#ifndef PACER_CLOCK_H
#define PACER_CLOCK_H

#include "schedule.h"

/* once, before the first reading: may open a file */
extern void pacer_clock_init(void);

/* neither sleeps, allocates nor raises: may be called under a buffer lock */
extern ScheduleClock pacer_clock_read(void);

/* the elapsed time alone, for waiting */
extern int64_t pacer_clock_elapsed(void);

#endif							/* PACER_CLOCK_H */
