/*
 * source.c - making sources
 *
 * An ordinary transaction on the server: unlike a booking it is not asked for twice
 * when its answer is lost, unless an existing source is welcome.
 */
#include "internal.h"

static int
check_source(pgpacer *h, const char *name, const pgpacer_source_options *options, pgpacer_source_options *o)
{
	if (!options_copy(o, sizeof *o, options))
		return handle_fail(h, PGPACER_INVALID, "the options have a wrong size or set a field unknown to this version");
	if (!name || name[0] == '\0')
		return handle_fail(h, PGPACER_INVALID, "a source's name has 1 to 255 bytes");
	if (o->interval_us <= 0)
		return handle_fail(h, PGPACER_INVALID, "the interval must be above zero");
	return PGPACER_OK;
}

static void
bind_source(Statement *s, const char *name, const pgpacer_source_options *o)
{
	statement_init(s, "SELECT pacer.create_source($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)");
	add_text(s, name);
	add_interval(s, o->interval_us);
	add_int4(s, o->burst);
	if (o->max_waiting < 0)
		add_null(s, OID_INT4);
	else
		add_int4(s, o->max_waiting);
	add_interval(s, o->max_wait_us);
	if (o->quota == 0)
		add_null(s, OID_INT4);
	else
		add_int4(s, o->quota);
	add_interval(s, o->quota_window_us != 0 ? o->quota_window_us : PGPACER_NO_LIMIT);
	add_int4(s, o->remembered);
	add_bool(s, o->if_not_exists);
	add_timestamptz(s, o->quota_origin_us);
}

int
pgpacer_create_source(pgpacer *h, const char *name, const pgpacer_source_options *options)
{
	pgpacer_source_options o = PGPACER_SOURCE_OPTIONS_INIT;
	Statement	s;
	Bounds		bounds;
	PGresult   *res = NULL;
	int64_t		arrived;
	int			rc = handle_enter(h);

	if (rc != PGPACER_OK)
		return rc;
	rc = check_source(h, name, options, &o);
	if (rc == PGPACER_OK)
	{
		bounds = handle_bounds(h, NULL);
		bind_source(&s, name, &o);
		rc = (o.if_not_exists ? query_run_idempotent : query_run) (h, &s, &bounds, &res, &arrived);
		PQclear(res);
	}
	return handle_leave(h, rc);
}
