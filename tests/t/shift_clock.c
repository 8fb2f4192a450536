/*
 * shift_clock.c - a wall clock that a test can set (LD_PRELOAD)
 *
 * What the wall clock shows is the machine's, shifted by the microseconds that
 * stand as one int64 in the file named by SHIFT_CLOCK. The file is mapped, so
 * that a step reaches every process of a server at one instant. Elapsed time is
 * left alone, as it is when somebody sets a clock.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *shift_us;
static int	(*real_clock_gettime) (clockid_t, struct timespec *);

__attribute__((constructor))
static void
init(void)
{
	const char *name = getenv("SHIFT_CLOCK");
	int			fd = name != NULL ? open(name, O_RDONLY | O_CLOEXEC) : -1;
	void	   *map;

	/* the pointer types do not convert into each other in ISO C */
	*(void **) &real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
	if (fd < 0)
		return;
	map = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (map != MAP_FAILED)
		shift_us = map;
}

int
clock_gettime(clockid_t clock, struct timespec *ts)
{
	int			result = real_clock_gettime(clock, ts);

	if (result == 0 && shift_us != NULL && clock == CLOCK_REALTIME)
	{
		int64_t		us = (int64_t) ts->tv_sec * 1000000 + ts->tv_nsec / 1000 + *shift_us;

		ts->tv_sec = us / 1000000;
		ts->tv_nsec = us % 1000000 * 1000 + ts->tv_nsec % 1000;
	}
	return result;
}

int
gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	struct timespec ts;

	(void) tz;
	if (clock_gettime(CLOCK_REALTIME, &ts) != 0)
		return -1;
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

time_t
time(time_t *t)
{
	struct timespec ts = {0};

	clock_gettime(CLOCK_REALTIME, &ts);
	if (t != NULL)
		*t = ts.tv_sec;
	return ts.tv_sec;
}
