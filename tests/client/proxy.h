/*
 * proxy.h - a man in the middle between a client and the tests' server
 *
 * A thread that listens on a Unix-domain socket of its own, passes bytes both ways
 * and misbehaves on demand.  A new connection of the client is a new connection to the
 * server.
 */
#ifndef PROXY_H
#define PROXY_H

#include "support.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>

typedef enum ProxyMode
{
	PROXY_PASS,
	PROXY_CUT_ANSWER,			/* the next bytes from the server are thrown away, the connection cut; then PASS */
	PROXY_FREEZE,				/* connections are taken, nothing goes through */
	PROXY_SWALLOW_ANSWERS,		/* nothing comes back from the server */
	PROXY_WARN					/* a WARNING precedes the next bytes from the server; then PASS */
} ProxyMode;

#define PROXY_PAIRS 16

typedef struct Proxy
{
	char		dir[64];
	char		conninfo[128];
	int			listen_fd;
	int			stop[2];
	pthread_t	thread;
	atomic_int	mode;
	atomic_int	connections;
	atomic_long from_client;	/* bytes */
	int			pairs[PROXY_PAIRS][2];	/* client's and server's end; -1: none */
} Proxy;

static int
proxy_dial(void)
{
	PGconn	   *probe = PQconnectdb("");
	const char *host = PQhost(probe);
	const char *port = PQport(probe);
	int			fd = -1;

	if (host[0] == '/')
	{
		struct sockaddr_un a = {.sun_family = AF_UNIX};

		snprintf(a.sun_path, sizeof a.sun_path, "%s/.s.PGSQL.%s", host, port);
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (connect(fd, (struct sockaddr *) &a, sizeof a) != 0)
			abort();
	}
	else
	{
		struct addrinfo *ai;

		if (getaddrinfo(host, port, NULL, &ai) != 0)
			abort();
		fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (connect(fd, ai->ai_addr, ai->ai_addrlen) != 0)
			abort();
		freeaddrinfo(ai);
	}
	PQfinish(probe);
	return fd;
}

static void
proxy_hang_up(Proxy *p, int i)
{
	close(p->pairs[i][0]);
	if (p->pairs[i][1] >= 0)
		close(p->pairs[i][1]);
	p->pairs[i][0] = p->pairs[i][1] = -1;
}

static void
proxy_accept(Proxy *p)
{
	int			fd = accept(p->listen_fd, NULL, NULL);

	for (int i = 0; fd >= 0 && i < PROXY_PAIRS; i++)
		if (p->pairs[i][0] < 0)
		{
			p->pairs[i][0] = fd;
			p->pairs[i][1] = p->mode == PROXY_FREEZE ? -1 : proxy_dial();
			p->connections++;
			return;
		}
	abort();
}

static void
proxy_write(int fd, const char *bytes, ssize_t n)
{
	for (ssize_t done = 0, w; done < n; done += w)
	{
		w = send(fd, bytes + done, (size_t) (n - done), MSG_NOSIGNAL);
		if (w <= 0)
			return;
	}
}

static const char proxy_warning[] = "N\0\0\0\x22" "SWARNING\0" "VWARNING\0" "C01000\0" "Mhm\0" "\0";

static void
proxy_pass(Proxy *p, int i, int side)
{
	char		buf[8192];
	ssize_t		n = recv(p->pairs[i][side], buf, sizeof buf, 0);

	if (n <= 0)
	{
		proxy_hang_up(p, i);
		return;
	}
	if (side == 0)
		p->from_client += n;
	else if (p->mode == PROXY_CUT_ANSWER)
	{
		p->mode = PROXY_PASS;
		proxy_hang_up(p, i);
		return;
	}
	else if (p->mode == PROXY_SWALLOW_ANSWERS)
		return;
	else if (p->mode == PROXY_WARN)
	{
		p->mode = PROXY_PASS;
		proxy_write(p->pairs[i][0], proxy_warning, sizeof proxy_warning - 1);
	}
	proxy_write(p->pairs[i][1 - side], buf, n);
}

static void *
proxy_main(void *arg)
{
	Proxy	   *p = arg;

	for (;;)
	{
		struct pollfd fds[2 + 2 * PROXY_PAIRS] = {
			{.fd = p->stop[0],.events = POLLIN}, {.fd = p->listen_fd,.events = POLLIN}
		};

		for (int i = 0; i < PROXY_PAIRS; i++)
			for (int side = 0; side < 2; side++)
			{
				fds[2 + 2 * i + side].fd = p->mode == PROXY_FREEZE ? -1 : p->pairs[i][side];
				fds[2 + 2 * i + side].events = POLLIN;
			}
		if (poll(fds, 2 + 2 * PROXY_PAIRS, 20) < 0)
			continue;
		if (fds[0].revents)
			return NULL;
		if (fds[1].revents)
			proxy_accept(p);
		for (int i = 0; i < PROXY_PAIRS; i++)
			for (int side = 0; side < 2; side++)
				if (fds[2 + 2 * i + side].revents && p->pairs[i][side] == fds[2 + 2 * i + side].fd)
					proxy_pass(p, i, side);
	}
}

static UNUSED void
proxy_start(Proxy *p)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	memset(p, 0, sizeof *p);
	for (int i = 0; i < PROXY_PAIRS; i++)
		p->pairs[i][0] = p->pairs[i][1] = -1;
	strcpy(p->dir, "/tmp/pgpacer-XXXXXX");
	if (!mkdtemp(p->dir))
		fail_msg("mkdtemp: %s", strerror(errno));
	snprintf(a.sun_path, sizeof a.sun_path, "%s/.s.PGSQL.5432", p->dir);
	snprintf(p->conninfo, sizeof p->conninfo, "host=%s port=5432", p->dir);
	p->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(p->listen_fd, (struct sockaddr *) &a, sizeof a), 0);
	assert_int_equal(listen(p->listen_fd, 16), 0);
	assert_int_equal(pipe(p->stop), 0);
	assert_int_equal(pthread_create(&p->thread, NULL, proxy_main, p), 0);
}

static UNUSED void
proxy_stop(Proxy *p)
{
	char		path[128];

	assert_int_equal(write(p->stop[1], "", 1), 1);
	pthread_join(p->thread, NULL);
	for (int i = 0; i < PROXY_PAIRS; i++)
		if (p->pairs[i][0] >= 0)
			proxy_hang_up(p, i);
	close(p->listen_fd);
	close(p->stop[0]);
	close(p->stop[1]);
	snprintf(path, sizeof path, "%s/.s.PGSQL.5432", p->dir);
	unlink(path);
	rmdir(p->dir);
}

#endif							/* PROXY_H */
