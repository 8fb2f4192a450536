/*
 * durations.c - what people write for times, rates and quotas
 *
 * Beside the sanitizers: whatever is accepted is worked out a second time, with
 * numbers too large to overflow, and the two may differ by the rounding alone.
 */
#include "cli.h"

#include "fuzz.h"

/* "1.5min" again, as microseconds in 128 bits, cut off; -1: not of that form */
static __int128
duration_again(const char *text)
{
	static const struct
	{
		const char *name;
		int64_t		us;
	}			units[] = {
		{"", 1000000}, {"us", 1}, {"ms", 1000}, {"s", 1000000}, {"sec", 1000000}, {"m", 60000000},
		{"min", 60000000}, {"h", INT64_C(3600000000)}, {"d", INT64_C(86400000000)}
	};
	const char *p = text;
	__int128	n = 0;
	__int128	part = 0;
	__int128	scale = 1;

	for (; *p >= '0' && *p <= '9' && p - text < 24; p++)
		n = n * 10 + (*p - '0');
	if (*p == '.')
		/* digits that no microsecond of a day sees change nothing but the rounding */
		for (p++; *p >= '0' && *p <= '9'; p++)
			if (scale < INT64_C(1000000000000000000))
			{
				part = part * 10 + (*p - '0');
				scale *= 10;
			}
	for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
		if (strcmp(p, units[i].name) == 0)
			return n * units[i].us + part * units[i].us / scale;
	return -1;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char	   *text = text_of(data, size);
	char		shown[64];
	int64_t		us;
	int64_t		other;
	int			quota;

	if (parse_duration(text, &us))
	{
		__int128	again = duration_again(text);

		REQUIRE(us >= 0);
		/* rounded up here, cut off there, twice if it has more than 18 decimals */
		REQUIRE(again >= 0 && us >= again && us <= again + 2);
		REQUIRE(parse_interval(text, &other) ? other == us && us > 0 : us == 0);
		REQUIRE(parse_pause(text, &other) ? other == us : us == PGPACER_NO_LIMIT);
		print_duration(shown, sizeof shown, us);
		REQUIRE(strlen(shown) >= strlen("0.000 s"));
	}
	else if (parse_interval(text, &us))
	{
		REQUIRE(us > 0);
		/* a rate is never exceeded: what it allows in its period takes no less than that */
		REQUIRE(parse_quota(text, &quota, &other));
		REQUIRE(quota >= 1 && other > 0);
		REQUIRE((__int128) us * quota >= other && (__int128) (us - 1) * quota < other);
	}
	if (parse_pause(text, &us))
		REQUIRE(us == PGPACER_NO_LIMIT || us < INT64_MAX);
	if (parse_int(text, -100, INT64_MAX, &us))
	{
		char	   *end;

		REQUIRE(us >= -100 && us == strtoll(text, &end, 10) && *end == '\0');
	}
	free(text);
	return 0;
}
