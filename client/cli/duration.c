/*
 * duration.c - durations and rates as people write them
 *
 * In integers throughout: 0.1 s is 100000 us, not what a double makes of it.
 */
#define _GNU_SOURCE

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"

static const struct
{
	const char *name;
	int64_t		us;
}			units[] = {
	{"us", 1}, {"ms", 1000},
	{"s", 1000000}, {"sec", 1000000},
	{"m", 60000000}, {"min", 60000000},
	{"h", INT64_C(3600000000)}, {"d", INT64_C(86400000000)},
};

/* The length of a unit; seconds if there is none, as sleep(1) has it; 0: unknown. */
static int64_t
unit_us(const char *name)
{
	if (name[0] == '\0')
		return 1000000;
	for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
		if (strcmp(name, units[i].name) == 0)
			return units[i].us;
	return 0;
}

bool
parse_int(const char *text, int64_t min, int64_t max, int64_t *value)
{
	uint64_t	n = 0;
	bool		negative = text[0] == '-';
	const char *p = text + negative;

	if (*p < '0' || *p > '9')
		return false;
	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, (uint64_t) (*p - '0'), &n))
			return false;
	if (*p != '\0' || n > INT64_MAX)
		return false;
	*value = negative ? -(int64_t) n : (int64_t) n;
	return *value >= min && *value <= max;
}

/* "500ms", "1.5s", "2min", "1h", "30"; a part of a microsecond is rounded up. */
bool
parse_duration(const char *text, int64_t *us)
{
	size_t		whole = strspn(text, "0123456789");
	const char *rest = text + whole;
	const char *fraction = rest;
	char		digits[24];
	int64_t		unit;
	int64_t		n = 0;
	__int128	part = 0;

	if (*rest == '.')
	{
		fraction = rest + 1;
		rest = fraction + strspn(fraction, "0123456789");
	}
	if (whole + (size_t) (rest - fraction) == 0 || whole >= sizeof digits)
		return false;
	memcpy(digits, text, whole);
	digits[whole] = '\0';
	unit = unit_us(rest);
	if (unit == 0 || (whole > 0 && !parse_int(digits, 0, INT64_MAX, &n)))
		return false;

	/* from the last digit: part is the fraction of a unit so far, rounded up */
	for (const char *p = rest; p > fraction;)
		part = (part + (*--p - '0') * (__int128) unit + 9) / 10;
	return !__builtin_mul_overflow(n, unit, &n) && !__builtin_add_overflow(n, (int64_t) part, us);
}

/* "COUNT/DURATION"; a bare unit is one of it. */
static bool
parse_ratio(const char *text, int64_t *count, int64_t *us)
{
	const char *slash = strchr(text, '/');
	char		number[24];

	if (!slash || (size_t) (slash - text) >= sizeof number)
		return false;
	memcpy(number, text, (size_t) (slash - text));
	number[slash - text] = '\0';
	if (!parse_int(number, 1, INT32_MAX, count))
		return false;
	*us = slash[1] != '\0' ? unit_us(slash + 1) : 0;
	return *us > 0 || (parse_duration(slash + 1, us) && *us > 0);
}

/* A duration, or a rate such as 3/s, whose interval is rounded up so that it is never exceeded. */
bool
parse_interval(const char *text, int64_t *us)
{
	int64_t		count;

	if (!strchr(text, '/'))
		return parse_duration(text, us) && *us > 0;
	if (!parse_ratio(text, &count, us))
		return false;
	*us = *us / count + (*us % count != 0);
	return true;
}

/*
 * How long to pause: a duration; "infinity"; or a date as HTTP writes it, "Sun, 06 Nov
 * 1994 08:49:37 GMT", which is judged by this machine's clock.  0 or less if there is
 * nothing to wait for: the date has passed.
 */
bool
parse_pause(const char *text, int64_t *us)
{
	struct tm	t = {0};
	const char *end;

	if (strcmp(text, "infinity") == 0)
	{
		*us = PGPACER_NO_LIMIT;
		return true;
	}
	if (parse_duration(text, us))
		return *us != PGPACER_NO_LIMIT;
	end = strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &t);
	if (!end || *end != '\0')
		return false;
	*us = ((int64_t) timegm(&t) - (int64_t) time(NULL)) * 1000000;
	return true;
}

bool
parse_quota(const char *text, int *quota, int64_t *window_us)
{
	int64_t		count;

	if (!parse_ratio(text, &count, window_us))
		return false;
	*quota = (int) count;
	return true;
}

/* In seconds with three decimals, rounded up: a wait that is not over never reads 0. */
void
print_duration(char *text, size_t size, int64_t us)
{
	int64_t		ms = us / 1000 + (us % 1000 != 0);

	snprintf(text, size, "%" PRId64 ".%03" PRId64 " s", ms / 1000, ms % 1000);
}
