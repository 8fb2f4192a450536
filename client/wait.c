/*
 * wait.c - the monotonic clock, and the one place where the library sleeps
 *
 * Guarantees: a wait never ends before its time, is not lengthened or shortened by
 * signals, does not spin, and overflows no timer, however long it is.
 * Does not guarantee that it ends on time: the kernel may wake us late.
 *
 * Linux lets a poll() oversleep by a thousandth of its timeout (a two hundredth in a
 * process that is nice), so that it can wake several at once; not so a timerfd, which
 * longer sleeps therefore use.
 */
#define _GNU_SOURCE				/* ppoll */

#include <errno.h>
#include <poll.h>
#ifdef __linux__
#include <sys/timerfd.h>
#endif
#include <time.h>
#include <unistd.h>

#include "internal.h"

/*
 * Time goes on while the machine is suspended, and so does the schedule on the
 * server: count suspended time where the system can.
 */
#ifdef CLOCK_BOOTTIME
#define WAIT_CLOCK CLOCK_BOOTTIME
#else
#define WAIT_CLOCK CLOCK_MONOTONIC
#endif

/*
 * Longest single sleep.  The kernel's timer for poll() does not count suspended
 * time, so after a suspension we notice at the end of a piece that the time has
 * come.  It also keeps every conversion below far away from its limits.
 */
#define PIECE_US	INT64_C(600000000)

/* Now; cannot fail.  Truncated, so "now >= due" is never true too early. */
int64_t
clock_us(void)
{
	struct timespec t;

	clock_gettime(WAIT_CLOCK, &t);
	return (int64_t) t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* from + by, or never; by < 0 counts as 0. */
int64_t
later_us(int64_t from_us, int64_t by_us)
{
	if (by_us <= 0)
		return from_us;
	return by_us < PGPACER_NO_LIMIT - from_us ? from_us + by_us : PGPACER_NO_LIMIT;
}

int64_t
sooner_us(int64_t a_us, int64_t b_us)
{
	return a_us < b_us ? a_us : b_us;
}

/* Sleeps this long use a timer of their own: below, what poll() adds is nothing. */
#define TIMER_FROM_US	INT64_C(50000)

/*
 * Arms a timer for an instant of WAIT_CLOCK, making it first if *fd is -1.  False: there
 * is none to be had, poll() has to do.
 */
static bool
set_timer(int *fd, int64_t at_us)
{
#ifdef __linux__
	struct itimerspec t = {.it_value = {.tv_sec = at_us / 1000000,.tv_nsec = at_us % 1000000 * 1000}};

	if (*fd < 0)
		*fd = timerfd_create(WAIT_CLOCK, TFD_CLOEXEC | TFD_NONBLOCK);
	return *fd >= 0 && timerfd_settime(*fd, TFD_TIMER_ABSTIME, &t, NULL) == 0;
#else
	(void) fd;
	(void) at_us;
	return false;
#endif
}

static int
sleep_in_poll(struct pollfd *fds, nfds_t n, int64_t us)
{
#if defined(__linux__) || defined(__FreeBSD__) || defined(__OpenBSD__) || defined(__NetBSD__)
	struct timespec t = {.tv_sec = us / 1000000,.tv_nsec = us % 1000000 * 1000};

	return ppoll(fds, n, &t, NULL);
#else
	/* rounded up: rounding down would make the last millisecond a busy loop */
	return poll(fds, n, (int) ((us + 999) / 1000));
#endif
}

/*
 * Sleeps until fd has one of the events (fd < 0: there is none), the token fires or
 * its deadline passes, or until_us.  A token that has fired wins over the others.
 *
 * The rest is computed anew from the absolute end after every wake-up, so a signal
 * (EINTR) neither ends the wait nor starts it afresh.  poll, not select: descriptors
 * may be above 1024.
 */
static Woken
wait_in_poll(struct pollfd *fds, pgpacer_cancel *cancel, int64_t until_us)
{
	for (;;)
	{
		int64_t		now = clock_us();
		int64_t		end = until_us;
		int			n;

		if (cancel)
		{
			if (pgpacer_cancel_reason(cancel) != 0)
				return WOKEN_CANCELLED;
			end = sooner_us(end, cancel_deadline_us(cancel));
		}
		if (fds[1].fd < 0 && now >= until_us)
			return WOKEN_TIMEOUT;

		/* with a descriptor, look at it once even if the time is over */
		fds[2].revents = 0;
		if (end - now >= TIMER_FROM_US && end - now < PIECE_US && set_timer(&fds[2].fd, end))
			n = sleep_in_poll(fds, 3, PIECE_US);
		else
			n = sleep_in_poll(fds, 2, now >= end ? 0 : sooner_us(end - now, PIECE_US));
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return WOKEN_FAILED;
		if (n > 0 && fds[0].revents & POLLNVAL)
		{
			errno = EBADF;		/* a token that was freed: do not spin on it */
			return WOKEN_FAILED;
		}
		if (n > 0 && fds[0].revents != 0 && pgpacer_cancel_reason(cancel) == 0)
			pgpacer_cancel_fire(cancel, 1); /* it was fired in another process, across fork() */
		if (cancel && pgpacer_cancel_reason(cancel) != 0)
			return WOKEN_CANCELLED;
		if (n > 0 && fds[1].revents != 0)
			return WOKEN_READY;
		if (clock_us() >= until_us && (n == 0 || fds[2].revents != 0))
			return WOKEN_TIMEOUT;
	}
}

/* Bounded by until_us and the token. */
Woken
wait_for(int fd, short events, pgpacer_cancel *cancel, int64_t until_us)
{
	struct pollfd fds[3] = {
		{.fd = cancel ? pgpacer_cancel_fd(cancel) : -1,.events = POLLIN},
		{.fd = fd,.events = events},
		{.fd = -1,.events = POLLIN}
	};
	Woken		woken = wait_in_poll(fds, cancel, until_us);
	int			error = errno;

	if (fds[2].fd >= 0)
		close(fds[2].fd);
	errno = error;				/* of a wait that failed */
	return woken;
}
