/*
 * server_cancel.c - telling the server to cancel the statement it is running
 *
 * Guarantees: returns within the time given, even if the server is frozen or the
 * network swallows everything.  True means that the server has taken the request: it
 * hits the present statement or, if that has ended, nothing.  After false the request
 * may still be on its way, so the caller must close the connection: nothing that runs
 * on it later can be hit then.
 *
 * From libpq 17 on the request goes over a connection encrypted like the first one.
 * Before, there is only PQcancel(): in the clear, and blocking without bound.
 */
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "internal.h"

#ifdef LIBPQ_HAS_ASYNC_CANCEL

bool
server_cancel(PGconn *conn, int64_t until_us)
{
	PGcancelConn *request = PQcancelCreate(conn);
	PostgresPollingStatusType next = PGRES_POLLING_WRITING;

	if (!request || !PQcancelStart(request))
		next = PGRES_POLLING_FAILED;
	while (next == PGRES_POLLING_READING || next == PGRES_POLLING_WRITING)
	{
		short		events = next == PGRES_POLLING_READING ? POLLIN : POLLOUT;

		if (wait_for(PQcancelSocket(request), events, NULL, until_us) != WOKEN_READY)
			break;
		next = PQcancelPoll(request);
	}
	PQcancelFinish(request);
	return next == PGRES_POLLING_OK;
}

#else

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

/* Shared by the caller and the thread; whoever is last frees it. */
typedef struct Request
{
	PGcancel   *cancel;
	int			fds[2];			/* the thread writes its result */
	atomic_int	users;
} Request;

static void
leave_request(Request *r)
{
	if (atomic_fetch_sub(&r->users, 1) > 1)
		return;
	close(r->fds[0]);
	close(r->fds[1]);
	PQfreeCancel(r->cancel);
	free(r);
}

static void *
send_request(void *arg)
{
	Request    *r = arg;
	char		why[256];
	char		sent = (char) PQcancel(r->cancel, why, sizeof why);

	if (write(r->fds[1], &sent, 1) != 1)
		sent = 0;				/* cannot fail: the pipe is empty and both its ends are open */
	leave_request(r);
	return NULL;
}

/* A detached thread that takes none of the program's signals. */
static bool
start_thread(Request *r)
{
	pthread_attr_t attr;
	pthread_t	thread;
	sigset_t	all;
	sigset_t	before;
	bool		started;

	if (pthread_attr_init(&attr) != 0)
		return false;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	started = pthread_create(&thread, &attr, send_request, r) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return started;
}

/*
 * PQcancel() in a thread of its own, since nothing else bounds it: against a frozen
 * server it returns when the server is resumed or the network gives up.  We stop
 * waiting at until_us and leave the thread behind; it then frees what it holds.
 */
bool
server_cancel(PGconn *conn, int64_t until_us)
{
	Request    *r = calloc(1, sizeof *r);
	char		sent = 0;

	if (!r)
		return false;
	r->cancel = PQgetCancel(conn);
	if (!r->cancel || pipe(r->fds) != 0)
	{
		PQfreeCancel(r->cancel);
		free(r);
		return false;
	}
	fcntl(r->fds[0], F_SETFD, FD_CLOEXEC);
	fcntl(r->fds[1], F_SETFD, FD_CLOEXEC);
	atomic_init(&r->users, 2);
	if (!start_thread(r))
		leave_request(r);
	else if (wait_for(r->fds[0], POLLIN, NULL, until_us) == WOKEN_READY && read(r->fds[0], &sent, 1) != 1)
		sent = 0;
	leave_request(r);
	return sent != 0;
}

#endif
