/*
 * pacer_clock.c - one reading of the wall clock and the elapsed time
 *
 * Both are read as elapsed, wall, elapsed.  On a busy machine the process can
 * lose the processor in between; readings more than READ_TOLERANCE_US apart are
 * not one instant and would be taken for a clock step.
 */
#include "postgres.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "compat.h"
#include "pacer_clock.h"
#include "datatype/timestamp.h"

#define READ_TOLERANCE_US	1000
#define READ_ATTEMPTS		5
#define KERNEL_ID_FILE		"/proc/sys/kernel/random/boot_id"

static int64 kernel_id = 0;

/*
 * The identity of this run of the operating system: the first 64 bits of the
 * boot id.  0 where there is none, and the elapsed time is then never compared.
 */
void
pacer_clock_init(void)
{
	char		buf[37] = {0};
	uint64		id = 0;
	int			digits = 0;
	int			fd = open(KERNEL_ID_FILE, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (read(fd, buf, sizeof(buf) - 1) > 0)
	{
		for (char *p = buf; *p != '\0' && digits < 16; p++)
		{
			if (*p == '-')
				continue;
			id = id << 4 | (uint64) (*p <= '9' ? *p - '0' : (*p | 0x20) - 'a' + 10);
			digits++;
		}
		if (digits == 16)
			kernel_id = (int64) id;
	}
	close(fd);
}

static int64
read_us(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (int64) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t
pacer_clock_elapsed(void)
{
	return read_us(PACER_CLOCK_ELAPSED);
}

ScheduleClock
pacer_clock_read(void)
{
	ScheduleClock clk;

	clk.kernel = kernel_id;
	for (int i = 0; i < READ_ATTEMPTS; i++)
	{
		int64		before = read_us(PACER_CLOCK_ELAPSED);

		clk.wall = read_us(CLOCK_REALTIME) -
			((int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE)) * USECS_PER_DAY;
		clk.mono = read_us(PACER_CLOCK_ELAPSED);
		if (clk.mono - before <= READ_TOLERANCE_US)
			return clk;
	}
	clk.mono = 0;
	return clk;
}
