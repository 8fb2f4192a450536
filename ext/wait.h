/*
 * wait.h - sleep in the server
 */
#ifndef PACER_WAIT_H
#define PACER_WAIT_H

/*
 * Sleep for wait_us > 0, never less.  Woken by the time, by the session's latch
 * and by the death of the postmaster (which ends the process); looks once a
 * second whether the client is still there.  False: an interrupt is pending that
 * will end the statement; it has not been served, so that the caller can do
 * something about it before CHECK_FOR_INTERRUPTS() raises it.
 */
extern bool wait_until_elapsed(int64 wait_us);

#endif							/* PACER_WAIT_H */
