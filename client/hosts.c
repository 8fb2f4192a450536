/*
 * hosts.c - a list of hosts in the connection string
 *
 * libpq goes through such a list by itself, but only with its blocking calls does it
 * leave a host that does not answer: PQconnectPoll would stay with a dead machine for
 * as long as TCP does, and one bound for the whole list would never reach the second
 * host.  So each host is a connection attempt of its own, with its own bound.
 *
 * Where the list comes from a service file, where libpq is to shuffle it, or where
 * the lists do not match, nothing is split and libpq sees the string as it is.
 */
#define _GNU_SOURCE

#include <stdlib.h>
#include <string.h>

#include "internal.h"

static const char *
param(const pgpacer *h, const char *keyword)
{
	for (const PQconninfoOption *o = h->params; o->keyword; o++)
		if (strcmp(o->keyword, keyword) == 0)
			return o->val && o->val[0] != '\0' ? o->val : NULL;
	return NULL;
}

static const char *
param_or_env(const pgpacer *h, const char *keyword, const char *variable)
{
	const char *value = param(h, keyword);

	if (!value)
		value = getenv(variable);
	return value && value[0] != '\0' ? value : NULL;
}

static int
count_elements(const char *list)
{
	int			n = list ? 1 : 0;

	for (const char *p = list; p && *p; p++)
		n += *p == ',';
	return n;
}

/* A copy of the i-th element; NULL if the list is, or on lack of memory. */
static char *
copy_element(const char *list, int i)
{
	if (!list)
		return NULL;
	while (i-- > 0)
		list = strchr(list, ',') + 1;
	return strndup(list, strcspn(list, ","));
}

static bool
has_empty_element(const char *list)
{
	size_t		len = list ? strlen(list) : 0;

	return list && (list[0] == ',' || list[len - 1] == ',' || strstr(list, ",,"));
}

/* Fills targets and ntargets if the connection string names several hosts. */
int
hosts_split(pgpacer *h)
{
	bool		named = param(h, "host") || param(h, "hostaddr");
	const char *host = named ? param(h, "host") : param_or_env(h, "host", "PGHOST");
	const char *hostaddr = named ? param(h, "hostaddr") : param_or_env(h, "hostaddr", "PGHOSTADDR");
	const char *port = param_or_env(h, "port", "PGPORT");
	int			nhosts = count_elements(host);
	int			naddrs = count_elements(hostaddr);
	int			nports = count_elements(port);
	int			n = nhosts > naddrs ? nhosts : naddrs;

	if (n < 2 || param_or_env(h, "service", "PGSERVICE") || param_or_env(h, "load_balance_hosts", "PGLOADBALANCEHOSTS"))
		return PGPACER_OK;
	if ((nhosts && nhosts != n) || (naddrs && naddrs != n) || (nports > 1 && nports != n))
		return PGPACER_OK;
	if (has_empty_element(host) || has_empty_element(hostaddr) || has_empty_element(port))
		return PGPACER_OK;

	h->targets = calloc((size_t) n, sizeof *h->targets);
	if (!h->targets)
		return handle_fail(h, PGPACER_NO_MEMORY, "out of memory");
	for (h->ntargets = 0; h->ntargets < n; h->ntargets++)
	{
		Target	   *t = &h->targets[h->ntargets];

		t->host = copy_element(host, h->ntargets);
		t->hostaddr = copy_element(hostaddr, h->ntargets);
		t->port = copy_element(port, nports > 1 ? h->ntargets : 0);
		if ((host && !t->host) || (hostaddr && !t->hostaddr) || (port && !t->port))
		{
			h->ntargets++;		/* so that hosts_free() sees this one */
			return handle_fail(h, PGPACER_NO_MEMORY, "out of memory");
		}
	}
	return PGPACER_OK;
}

void
hosts_free(pgpacer *h)
{
	for (int i = 0; i < h->ntargets; i++)
	{
		free(h->targets[i].host);
		free(h->targets[i].hostaddr);
		free(h->targets[i].port);
	}
	free(h->targets);
}
