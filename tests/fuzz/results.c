/*
 * results.c - what a server answers, of whatever length and value
 *
 * The input becomes a row of binary columns, as a server of another version, or none
 * of ours at all, might send it; and text for the terminal.
 */
#include "internal.h"

#include "fuzz.h"

extern char *printable(const char *text);

static PGresult *
row_of(const uint8_t *data, size_t size)
{
	PGresult   *res = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
	PGresAttDesc columns[3] = {{.name = "a",.format = 1}, {.name = "b",.format = 1}, {.name = "c",.format = 1}};

	REQUIRE(res != NULL && PQsetResultAttrs(res, 3, columns));
	for (int i = 0; i < 3; i++)
	{
		size_t		len = size > 0 ? data[0] % 32 : 0;
		bool		null = size == 0 || data[0] >= 224;

		if (size > 0)
		{
			data++;
			size--;
		}
		len = len > size ? size : len;
		REQUIRE(PQsetvalue(res, 0, i, null ? NULL : (char *) data, null ? -1 : (int) len));
		data += len;
		size -= len;
	}
	return res;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	PGresult   *res = row_of(data, size);
	char	   *text = text_of(data, size);
	char	   *shown = printable(text);
	Statement	s;

	for (int i = 0; i < 3; i++)
	{
		int64_t		value;
		int			length = PQgetisnull(res, 0, i) ? -1 : PQgetlength(res, 0, i);

		REQUIRE(get_int8(res, i, &value) == (length == 8));
		if (get_timestamptz(res, i, &value))
		{
			statement_init(&s, "");
			add_timestamptz(&s, value);
			/* what was received is sent, but for what is beyond the end */
			REQUIRE(value == PGPACER_NO_LIMIT || memcmp(s.binary[0], PQgetvalue(res, 0, i), 8) == 0 ||
					value < INT64_MIN + INT64_C(946684800000001) + 1);
		}
		if (get_interval(res, i, &value))
			REQUIRE(length == 16);
	}
	for (const unsigned char *p = (unsigned char *) shown; *p; p++)
		REQUIRE(*p >= 0x20 && *p != 0x7f && !(*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0));
	(void) code_of_sqlstate(text);
	free(shown);
	free(text);
	PQclear(res);
	return 0;
}
