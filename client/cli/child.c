/*
 * child.c - run --pause-on: the command as a child, whose end decides on a pause
 *
 * Guarantees: signals reach the command, and its status, or the signal that ended it,
 * becomes ours, whether the pause succeeds or not.  Nothing of ours is left in the
 * command: no descriptor, no changed signal.  While it runs we hold no connection.
 * Does not guarantee: a pause if we are killed by SIGKILL; the command then goes on
 * alone.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

/*
 * Waits for the child, passing signals on.  They and SIGCHLD are blocked from before
 * the fork on, so none is lost and none ends us.  What the kernel sends (an interrupt
 * from the terminal) goes to the child's process group anyway: only what some process
 * sent to us alone has to be repeated.
 */
static int
wait_for_child(pid_t child, const sigset_t *signals)
{
	for (;;)
	{
		siginfo_t	info;
		int			status;

		if (sigwaitinfo(signals, &info) < 0)
			continue;			/* EINTR: stopped and continued */
		if (info.si_signo != SIGCHLD && info.si_code <= 0)
			kill(child, info.si_signo);
		if (info.si_signo == SIGCHLD && waitpid(child, &status, WNOHANG) == child)
			return status;
	}
}

static void
pause_if_asked(const Options *o, int status)
{
	for (int i = 0; i < o->npause_on; i++)
		if (o->pause_on[i].status == status)
		{
			if (o->verbose)
				complain(o, "\"%s\" exited with %d: pausing %s", o->command[0], status, o->args[0]);
			pause_source(o, o->args[0], o->pause_on[i].duration_us, NULL);
			return;
		}
}

int
run_child(const Options *o)
{
	struct sigaction child_before;
	sigset_t	signals;
	sigset_t	before;
	pid_t		child;
	int			status;

	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	for (size_t i = 0; i < sizeof passed_on / sizeof passed_on[0]; i++)
		sigaddset(&signals, passed_on[i]);
	sigprocmask(SIG_BLOCK, &signals, &before);
	sigaction(SIGCHLD, NULL, &child_before);
	signal(SIGCHLD, SIG_DFL);	/* ignored it would swallow the status */

	child = fork();
	if (child == 0)
	{
		sigaction(SIGCHLD, &child_before, NULL);
		sigprocmask(SIG_SETMASK, &before, NULL);
		_exit(exec_command(o));
	}
	if (child < 0)
	{
		complain(o, "could not start a process: %s", strerror(errno));
		return EXIT_FAILED;
	}
	status = wait_for_child(child, &signals);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (WIFEXITED(status))
	{
		pause_if_asked(o, WEXITSTATUS(status));
		return WEXITSTATUS(status);
	}
	setrlimit(RLIMIT_CORE, &(struct rlimit) {0, 0});	/* one core is enough */
	die_by_signal(WTERMSIG(status));
}
