/*
 * source_cache.h - from a source's name to its configuration and its row
 */
#ifndef PACER_SOURCE_CACHE_H
#define PACER_SOURCE_CACHE_H

#include "compat.h"
#include "schedule.h"
#include "storage/buf.h"
#include "storage/itemptr.h"

/* the relations of the extension in this database */
typedef struct PacerRelations
{
	Oid			slot;
	Oid			slot_pkey;
	Oid			source;
	Oid			source_pkey;
	Oid			run_mark;
	bool		slot_file_known;	/* and that its changes are logged */
	PacerLocator slot_file;
} PacerRelations;

#define SOURCE_NAME_MAX		255

typedef struct Source
{
	char		name[SOURCE_NAME_MAX + 1];	/* hash key */
	int32		source_id;
	int32		remembered;
	ItemPointerData tid;		/* of its row in pacer.slot */
	TransactionId xmin;			/* as the look-up found that row alive */
	TransactionId xmax;
	Buffer		buffer;			/* that held the row's page the last time */
	ScheduleConfig config;		/* without the settings of the server */
} Source;

/* columns of pacer.source, in the order of its CREATE TABLE */
typedef enum SourceColumn
{
	SOURCE_NAME = 1,
	SOURCE_INTERVAL,
	SOURCE_BURST,
	SOURCE_MAX_WAITING,
	SOURCE_MAX_WAIT,
	SOURCE_REMEMBERED,
	SOURCE_QUOTA,
	SOURCE_QUOTA_WINDOW,
	SOURCE_QUOTA_ORIGIN,
	SOURCE_ID
} SourceColumn;

extern void source_cache_init(void);

/*
 * The relations, in the schema of function "fn".  Raises 55000 if one is
 * missing.  To be called before the lock on pacer.slot is taken.
 */
extern const PacerRelations *source_cache_relations(Oid fn);

/* What pacer.slot's file is; forgotten like the rest.  The caller holds a lock on it. */
extern void source_cache_know_file(PacerLocator file);

/*
 * The source of that name, or NULL.  The caller holds a lock on pacer.slot:
 * taking it made the cache current, and a row address stays valid under it.
 * may_cache = false: look it up anew.  The result is good until the next call.
 */
extern Source *source_cache_find(const text *name, bool may_cache);

#endif							/* PACER_SOURCE_CACHE_H */
