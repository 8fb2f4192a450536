/*
 * acquire.c SOURCE - the row with greatest(next_request_at, now()) + interval, in one call
 *
 *		$ pgpacer create api 100ms
 *		$ ./acquire api
 *		started, after the slot
 *		started, after the slot
 *		started, after the slot
 */
#include <pgpacer.h>
#include <stdio.h>
#include <time.h>

int
main(int argc, char **argv)
{
	pgpacer    *h;
	int			rc = pgpacer_open(&h, "", NULL);

	for (int i = 0; i < 3 && rc == PGPACER_OK; i++)
	{
		pgpacer_booking b;

		rc = pgpacer_acquire(h, argc > 1 ? argv[1] : "api", NULL, &b);
		if (rc == PGPACER_OK)	/* then call the service */
			printf("started, %s the slot\n", time(NULL) >= b.slot_at_us / 1000000 ? "after" : "before");
	}
	if (rc != PGPACER_OK)
		fprintf(stderr, "acquire: %s\n", pgpacer_errmsg(h));
	pgpacer_close(h);
	return rc != PGPACER_OK;
}
