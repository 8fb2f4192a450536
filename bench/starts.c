/*
 * starts.c SOURCE PROCESSES STARTS - how exactly callers start
 *
 * Each process books through the library again and again, waits, confirms, and
 * notes when it was told to start.  Printed is one line per start:
 *
 *		START LATENESS		both in microseconds; start on this machine's monotonic clock
 *
 * Lateness is against the slot as the caller was told it, and 0 for an
 * immediate start.
 */
#include <inttypes.h>
#include <pgpacer.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t
clock_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t) t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void
start_one(pgpacer *h, const char *source, FILE *out)
{
	pgpacer_booking b;
	int64_t		woken;
	int64_t		late = 0;

	if (pgpacer_book(h, source, NULL, &b) != PGPACER_OK)
		goto failed;
	if (b.state == PGPACER_STATE_HELD)
	{
		if (pgpacer_wait(h, &b, NULL) != PGPACER_OK)
			goto failed;
		woken = clock_us();
		late = woken - b.due_us;
	}
	if (pgpacer_start(h, &b, NULL) != PGPACER_OK)
		goto failed;
	fprintf(out, "%" PRId64 " %" PRId64 "\n", clock_us(), late);
	return;

failed:
	fprintf(stderr, "%s\n", pgpacer_errmsg(h));
	exit(1);
}

static int
run(const char *source, int starts)
{
	pgpacer    *h;
	FILE	   *out = fdopen(dup(STDOUT_FILENO), "a");

	if (!out || pgpacer_open(&h, "", NULL) != PGPACER_OK)
		return 1;
	setvbuf(out, malloc(1 << 20), _IOFBF, 1 << 20);
	while (starts-- > 0)
		start_one(h, source, out);
	fclose(out);
	pgpacer_close(h);
	return 0;
}

int
main(int argc, char **argv)
{
	int			failed = 0;
	int			status;

	if (argc != 4)
		return 2;
	for (int i = atoi(argv[2]); i > 0; i--)
	{
		pid_t		pid = fork();

		if (pid == 0)
			exit(run(argv[1], atoi(argv[3])));
		if (pid < 0)
			return 1;
	}
	while (wait(&status) > 0)
		failed |= status != 0;
	return failed;
}
