/*
 * conninfo.c - connection strings and lists of hosts, as a program hands them to the library
 *
 * Nothing is connected to. What is split into hosts is put together again.
 */
#include "internal.h"

#include "fuzz.h"

static void
check_list(const pgpacer *h, const char *keyword, size_t member)
{
	const char *list = NULL;
	char		joined[4096] = "";

	for (const PQconninfoOption *p = h->params; p->keyword; p++)
		if (strcmp(p->keyword, keyword) == 0)
			list = p->val;
	if (!list || list[0] == '\0' || strlen(list) >= sizeof joined)
		return;
	for (int i = 0; i < h->ntargets; i++)
	{
		const char *value = *(char *const *) ((const char *) &h->targets[i] + member);

		REQUIRE(value != NULL);
		if (i > 0)
			strcat(joined, ",");
		strcat(joined, value);
	}
	REQUIRE(strcmp(joined, list) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char	   *text = text_of(data, size);
	pgpacer_options o = PGPACER_OPTIONS_INIT;
	pgpacer    *h = NULL;
	int			rc;

	if (size > 0 && data[0] % 8 == 0)
		o.connect_timeout_us = data[size - 1];
	rc = pgpacer_open(&h, text, &o);
	REQUIRE(h != NULL && (rc == PGPACER_OK || rc == PGPACER_INVALID));
	REQUIRE(rc == PGPACER_OK || pgpacer_errmsg(h)[0] != '\0');
	REQUIRE(h->ntargets != 1);
	if (rc == PGPACER_OK && h->ntargets > 0)
	{
		check_list(h, "host", offsetof(Target, host));
		check_list(h, "hostaddr", offsetof(Target, hostaddr));
	}
	if (rc == PGPACER_OK)
		REQUIRE(h->opt.connect_timeout_us > 0);
	REQUIRE(pgpacer_close(h) == PGPACER_OK);
	free(text);
	return 0;
}
