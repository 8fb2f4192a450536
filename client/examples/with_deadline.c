/*
 * with_deadline.c - two seconds for everything, a tenth of one for this
 *
 *		$ ./with_deadline
 *		quick returned 7
 *		slow passed its deadline of 100 ms and returned after 100 ms (called in main, examples/with_deadline.c:46)
 *
 * In "slow" a pgpacer_acquire() in place of the sleep would have its statement cancelled
 * on the server, and its slot given back.
 */
#include <pgpacer_local.h>
#include <stdio.h>

static int
quick(pgpacer_cancel *cancel, void *arg)
{
	(void) cancel;
	(void) arg;
	return 7;
}

static int
slow(pgpacer_cancel *cancel, void *arg)
{
	(void) arg;
	return pgpacer_sleep(60000000, cancel);
}

int
main(void)
{
	pgpacer_cancel *all = pgpacer_cancel_new();
	pgpacer_error error;
	int			result;
	int			rc;

	pgpacer_cancel_deadline(all, 2000000);

	rc = pgpacer_with_deadline(100000, all, quick, NULL, &result, &error);
	if (rc == PGPACER_OK)
		printf("quick returned %d\n", result);
	else
		puts(error.message);

	/* the file and line of this call stand in the message */
	rc = pgpacer_with_deadline(100000, all, slow, NULL, &result, &error);
	if (rc != PGPACER_OK)
		puts(error.message);

	pgpacer_cancel_free(all);
	return rc != PGPACER_DEADLINE;
}
