/*
 * cancel.c - cancel tokens
 *
 * A token is an atomic reason and a pipe.  The reason is what counts: it is set
 * once, before the byte is written.  The pipe only wakes pollers; its byte is never
 * read, so the descriptor stays readable for every present and later poller.
 *
 * A child's descriptor is an epoll of its own pipe and of its parent's descriptor: it is
 * readable once either is, and firing the parent touches nothing of the child, which a
 * signal handler could not do safely.
 */
#define _GNU_SOURCE				/* pipe2 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#ifdef __linux__
#include <sys/epoll.h>
#endif
#include <unistd.h>

#include "internal.h"

#if ATOMIC_INT_LOCK_FREE != 2 || ATOMIC_LLONG_LOCK_FREE != 2
#error "cancel tokens are fired from signal handlers and need lock-free atomics"
#endif

struct pgpacer_cancel
{
	int			read_fd;
	int			write_fd;
	int			poll_fd;		/* what pollers get: read_fd, or a child's epoll */
	pgpacer_cancel *parent;		/* NULL: none */
	atomic_int	reason;
	_Atomic int64_t deadline_us;
};

pgpacer_cancel *
pgpacer_cancel_new(void)
{
	pgpacer_cancel *c = malloc(sizeof *c);
	int			fds[2];

	if (!c)
		return NULL;
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
	{
		free(c);
		return NULL;
	}
	c->read_fd = fds[0];
	c->write_fd = fds[1];
	c->poll_fd = c->read_fd;
	c->parent = NULL;
	atomic_init(&c->reason, 0);
	atomic_init(&c->deadline_us, PGPACER_NO_LIMIT);
	return c;
}

/* One that is readable when either is; -1: see errno. */
static int
poll_both(int a, int b)
{
#ifdef __linux__
	struct epoll_event event = {.events = EPOLLIN};
	int			fd = epoll_create1(EPOLL_CLOEXEC);

	if (fd >= 0 && (epoll_ctl(fd, EPOLL_CTL_ADD, a, &event) != 0 || epoll_ctl(fd, EPOLL_CTL_ADD, b, &event) != 0))
	{
		int			error = errno;

		close(fd);
		errno = error;
		fd = -1;
	}
	return fd;
#else
	(void) a;
	(void) b;
	errno = ENOTSUP;
	return -1;
#endif
}

pgpacer_cancel *
pgpacer_cancel_child(pgpacer_cancel *parent)
{
	pgpacer_cancel *c = pgpacer_cancel_new();
	int			fd;

	if (!c || !parent)
		return c;
	fd = poll_both(c->read_fd, parent->poll_fd);
	if (fd < 0)
	{
		int			error = errno;

		pgpacer_cancel_free(c);
		errno = error;
		return NULL;
	}
	c->poll_fd = fd;
	c->parent = parent;
	return c;
}

void
pgpacer_cancel_free(pgpacer_cancel *c)
{
	if (!c)
		return;
	if (c->poll_fd != c->read_fd)
		close(c->poll_fd);
	close(c->read_fd);
	close(c->write_fd);
	free(c);
}

/*
 * Async-signal-safe: a compare-and-swap and write().  The write cannot block (the
 * pipe is empty, only the first firing writes) nor raise SIGPIPE (we hold the other
 * end).  A poller between the swap and the write is woken by the write.
 */
void
pgpacer_cancel_fire(pgpacer_cancel *c, int reason)
{
	int			saved_errno = errno;
	int			none = 0;

	if (c && atomic_compare_exchange_strong(&c->reason, &none, reason != 0 ? reason : 1))
	{
		ssize_t		written;

		do
			written = write(c->write_fd, "", 1);
		while (written < 0 && errno == EINTR);
	}
	errno = saved_errno;
}

void
pgpacer_cancel_deadline(pgpacer_cancel *c, int64_t in_us)
{
	if (c)
		atomic_store(&c->deadline_us, in_us == PGPACER_NO_LIMIT ? in_us : later_us(clock_us(), in_us));
}

int64_t
cancel_deadline_us(const pgpacer_cancel *c)
{
	int64_t		deadline = PGPACER_NO_LIMIT;

	for (; c; c = c->parent)
		deadline = sooner_us(deadline, atomic_load(&c->deadline_us));
	return deadline;
}

/* A child that has seen its parent fired stays fired, for the same reason. */
int
pgpacer_cancel_reason(pgpacer_cancel *c)
{
	int64_t		deadline;
	int			inherited;

	if (!c)
		return 0;
	deadline = atomic_load(&c->deadline_us);
	if (deadline != PGPACER_NO_LIMIT && clock_us() >= deadline)
		pgpacer_cancel_fire(c, PGPACER_REASON_DEADLINE);
	if (c->parent && atomic_load(&c->reason) == 0 && (inherited = pgpacer_cancel_reason(c->parent)) != 0)
		pgpacer_cancel_fire(c, inherited);
	return atomic_load(&c->reason);
}

int
pgpacer_cancel_fd(const pgpacer_cancel *c)
{
	return c ? c->poll_fd : -1;
}
