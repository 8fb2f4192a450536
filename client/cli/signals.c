/*
 * signals.c - SIGINT, SIGTERM and SIGHUP while we wait
 *
 * Guarantees: a signal while waiting fires the token, so the slot is released and no
 * child is started; a signal after that is the child's.  In between none is lost: a
 * signal is either seen by signals_let_go(), or kills this process, or the child.
 * A signal ignored when we were started (nohup) stays ignored, in the child too.
 */
#define _GNU_SOURCE

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli.h"

static const int caught[] = {SIGINT, SIGTERM, SIGHUP};
#define NCAUGHT (sizeof caught / sizeof caught[0])

static pgpacer_cancel *token;	/* set before the handler is */

static void
on_signal(int signo)
{
	pgpacer_cancel_fire(token, signo);
}

void
signals_catch(pgpacer_cancel *cancel)
{
	struct sigaction action = {.sa_handler = on_signal,.sa_flags = SA_RESTART};

	token = cancel;
	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < NCAUGHT; i++)
	{
		struct sigaction before;

		sigaction(caught[i], NULL, &before);
		if (before.sa_handler != SIG_IGN)
			sigaction(caught[i], &action, NULL);
	}
}

/*
 * The wait is over: give the signals their default action back, for us and so for the
 * child.  While that is done they are blocked; one that came before has fired the
 * token, one that comes meanwhile is delivered when they are unblocked, and kills us
 * as it would have killed the child.
 */
void
signals_let_go(void)
{
	sigset_t	ours;
	sigset_t	before;
	int			reason;

	sigemptyset(&ours);
	for (size_t i = 0; i < NCAUGHT; i++)
		sigaddset(&ours, caught[i]);
	sigprocmask(SIG_BLOCK, &ours, &before);
	reason = pgpacer_cancel_reason(token);
	for (size_t i = 0; i < NCAUGHT; i++)
	{
		struct sigaction action;

		sigaction(caught[i], NULL, &action);
		if (action.sa_handler == on_signal)
			signal(caught[i], SIG_DFL);
	}
	if (reason > 0)
		die_by_signal(reason);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

/*
 * Ends this process by the signal, so that a shell sees 128+n and also stops its loop
 * at an interrupt, which it does only if its child died of it.
 */
void
die_by_signal(int signo)
{
	sigset_t	one;

	signal(signo, SIG_DFL);
	sigemptyset(&one);
	sigaddset(&one, signo);
	raise(signo);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	_exit(128 + signo);			/* the first process of a container is not killed so easily */
}
