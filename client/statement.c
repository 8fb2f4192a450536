/*
 * statement.c - parameters and results in PostgreSQL's binary formats
 *
 * Times never travel as text: what DateStyle, IntervalStyle, TimeZone and the
 * locale make of them is not our concern, and no microsecond is lost.
 */
#include <endian.h>
#include <string.h>

#include "internal.h"

/* 2000-01-01, PostgreSQL's epoch, counted from 1970-01-01 */
#define PG_EPOCH_UNIX_US	INT64_C(946684800000000)
#define DAY_US				INT64_C(86400000000)

void
statement_init(Statement *s, const char *sql)
{
	s->sql = sql;
	s->nparams = 0;
}

static void
add_value(Statement *s, Oid type, const char *value, int length, int format)
{
	s->types[s->nparams] = type;
	s->values[s->nparams] = value;
	s->lengths[s->nparams] = length;
	s->formats[s->nparams] = format;
	s->nparams++;
}

/* value is copied; at most 16 bytes */
static void
add_binary(Statement *s, Oid type, const void *value, int length)
{
	memcpy(s->binary[s->nparams], value, (size_t) length);
	add_value(s, type, s->binary[s->nparams], length, 1);
}

void
add_null(Statement *s, Oid type)
{
	add_value(s, type, NULL, 0, 1);
}

/* value must outlive the statement; NULL is SQL's NULL */
void
add_text(Statement *s, const char *value)
{
	add_value(s, OID_TEXT, value, 0, 0);
}

void
add_bool(Statement *s, bool value)
{
	add_binary(s, OID_BOOL, value ? "\1" : "\0", 1);
}

void
add_int4(Statement *s, int32_t value)
{
	uint32_t	be = htobe32((uint32_t) value);

	add_binary(s, OID_INT4, &be, sizeof be);
}

static void
add_int64(Statement *s, Oid type, int64_t value)
{
	uint64_t	be = htobe64((uint64_t) value);

	add_binary(s, type, &be, sizeof be);
}

void
add_int8(Statement *s, int64_t value)
{
	add_int64(s, OID_INT8, value);
}

/* No limit travels as NULL, the server's word for it. */
void
add_interval(Statement *s, int64_t us)
{
	struct
	{
		uint64_t	us;
		uint32_t	days;
		uint32_t	months;
	}			be = {.us = htobe64((uint64_t) us)};

	if (us == PGPACER_NO_LIMIT)
		add_null(s, OID_INTERVAL);
	else
		add_binary(s, OID_INTERVAL, &be, sizeof be);
}

/* Callers keep unix_us within what timestamptz holds; below, it is cut off there. */
void
add_timestamptz(Statement *s, int64_t unix_us)
{
	if (unix_us < INT64_MIN + 1 + PG_EPOCH_UNIX_US)
		unix_us = INT64_MIN + 1 + PG_EPOCH_UNIX_US;
	add_int64(s, OID_TIMESTAMPTZ, unix_us == PGPACER_NO_LIMIT ? unix_us : unix_us - PG_EPOCH_UNIX_US);
}

/*
 * Getters: false if the first row's column is NULL or not of that binary size, as an
 * extension of another version might answer.
 */
bool
get_int8(const PGresult *res, int column, int64_t *value)
{
	uint64_t	be;

	if (PQgetisnull(res, 0, column) || PQgetlength(res, 0, column) != sizeof be)
		return false;
	memcpy(&be, PQgetvalue(res, 0, column), sizeof be);
	*value = (int64_t) be64toh(be);
	return true;
}

/* Days are 24 hours; what is too long for int64 is "never". */
bool
get_interval(const PGresult *res, int column, int64_t *us)
{
	struct
	{
		uint64_t	us;
		uint32_t	days;
		uint32_t	months;
	}			be;
	__int128	sum;

	if (PQgetisnull(res, 0, column) || PQgetlength(res, 0, column) != sizeof be)
		return false;
	memcpy(&be, PQgetvalue(res, 0, column), sizeof be);
	if (be.months != 0)
		return false;
	sum = (int64_t) be64toh(be.us) + (__int128) (int32_t) be32toh(be.days) * DAY_US;
	*us = sum > INT64_MAX ? PGPACER_NO_LIMIT : sum < INT64_MIN ? INT64_MIN : (int64_t) sum;
	return true;
}

/* 'infinity' is never. */
bool
get_timestamptz(const PGresult *res, int column, int64_t *unix_us)
{
	if (!get_int8(res, column, unix_us))
		return false;
	if (__builtin_add_overflow(*unix_us, PG_EPOCH_UNIX_US, unix_us))
		*unix_us = PGPACER_NO_LIMIT;
	return true;
}
