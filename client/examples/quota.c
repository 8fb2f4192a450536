/*
 * quota.c SOURCE - a fixed window that every instance shares and no restart forgets: 3 an hour
 *
 *		$ ./quota hourly
 *		call 1 starts
 *		call 2 starts
 *		call 3 starts
 *		call 4 has to wait for the next window
 */
#include <pgpacer.h>
#include <stdio.h>

#define HOUR	INT64_C(3600000000)

int
main(int argc, char **argv)
{
	const char *source = argc > 1 ? argv[1] : "hourly";
	pgpacer_source_options o = PGPACER_SOURCE_OPTIONS_INIT;
	pgpacer_book_options now_or_never = PGPACER_BOOK_OPTIONS_INIT;
	pgpacer    *h;
	int			rc = pgpacer_open(&h, "", NULL);

	o.interval_us = 1;
	o.quota = 3;
	o.quota_window_us = HOUR;
	now_or_never.max_wait_us = 1000;
	if (rc == PGPACER_OK)
		rc = pgpacer_create_source(h, source, &o);
	for (int i = 1; i <= 4 && (rc == PGPACER_OK || rc == PGPACER_EXISTS); i++)
	{
		rc = pgpacer_acquire(h, source, &now_or_never, NULL);
		if (rc == PGPACER_OK)
			printf("call %d starts\n", i);
	}
	if (rc == PGPACER_TOO_LATE)
		printf("call 4 has to wait for the next window\n");
	else
		fprintf(stderr, "quota: %s\n", pgpacer_errmsg(h));
	pgpacer_close(h);
	return rc != PGPACER_TOO_LATE;
}
