/*
 * sleep.c - a pause that Ctrl-C ends
 *
 *		$ ./sleep
 *		slept 0.2 s
 *		woken after less than 10 s by signal 15
 */
#include <pgpacer_local.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static pgpacer_cancel *stop;

static void
on_signal(int signo)
{
	pgpacer_cancel_fire(stop, signo);
}

int
main(void)
{
	stop = pgpacer_cancel_new();
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);

	if (pgpacer_sleep(200000, stop) == PGPACER_OK)
		puts("slept 0.2 s");

	kill(getpid(), SIGTERM);	/* as somebody might who wants us to end */
	if (pgpacer_sleep(10000000, stop) == PGPACER_CANCELLED)
		printf("woken after less than 10 s by signal %d\n", pgpacer_cancel_reason(stop));

	pgpacer_cancel_free(stop);
	return 0;
}
