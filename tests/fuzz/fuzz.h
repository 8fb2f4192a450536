/*
 * fuzz.h - what the fuzz targets share: bytes that become text and numbers
 */
#ifndef PACER_FUZZ_H
#define PACER_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition) \
	do { \
		if (!(condition)) \
		{ \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			abort(); \
		} \
	} while (0)

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* a string of its own length exactly, so that a byte read beyond it is seen */
static inline char *
text_of(const uint8_t *data, size_t size)
{
	char	   *text = malloc(size + 1);

	REQUIRE(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

#endif							/* PACER_FUZZ_H */
