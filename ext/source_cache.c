/*
 * source_cache.c - from a source's name to its configuration and its row
 *
 * The look-ups use SnapshotSelf: what is committed at this instant, and what
 * this transaction did itself.  A booking must see a change of configuration
 * that was committed after a REPEATABLE READ transaction began, and must leave
 * no SIREAD lock that could fail a serializable one; a snapshot of another kind
 * than MVCC does both.  Its weakness, that a row updated just now may be seen
 * twice or not at all, is met by looking again.
 *
 * A session keeps what it found.  Every committed UPDATE or DELETE of
 * pacer.source sends a relcache invalidation (trigger source_changed), and so
 * does whatever moves rows of pacer.slot (VACUUM FULL, CLUSTER, SET TABLESPACE,
 * DROP).  The order against a change that commits meanwhile (race "late
 * invalidation" in README.md): take the lock on pacer.slot, which accepts
 * invalidations; note the counter; look up; and keep the result only if the
 * counter has not moved.
 *
 * Not kept: a row that this transaction made (it may roll back, which sends no
 * message), and one whose deletion is under way.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "interval_us.h"
#include "source_cache.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* past this many sources a session starts its cache anew */
#define MAX_CACHED		4096
#define LOOKUP_ATTEMPTS	5

static HTAB *cache = NULL;
static Source *last_found = NULL;	/* in the cache, while that is valid */
static Source uncached;
static PacerRelations relations;
static bool relations_valid = false;
static bool cache_valid = false;
static uint64 invalidations = 0;

static void
invalidate(Datum arg, Oid relid)
{
	if (relid == InvalidOid || !relations_valid ||
		relid == relations.slot || relid == relations.source ||
		relid == relations.run_mark)
	{
		relations_valid = false;
		cache_valid = false;
		invalidations++;
	}
}

void
source_cache_init(void)
{
	CacheRegisterRelcacheCallback(invalidate, (Datum) 0);
}

static Oid
relation_in(Oid schema, const char *name)
{
	Oid			relid = get_relname_relid(name, schema);

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("relation \"%s\" of extension \"pg_pacer\" does not exist", name)));
	return relid;
}

const PacerRelations *
source_cache_relations(Oid fn)
{
	if (!relations_valid)
	{
		Oid			schema = get_func_namespace(fn);
		PacerRelations found = {0};
		uint64		before;

		do
		{
			before = invalidations;
			found.slot = relation_in(schema, "slot");
			found.slot_pkey = relation_in(schema, "slot_pkey");
			found.source = relation_in(schema, "source");
			found.source_pkey = relation_in(schema, "source_pkey");
			found.run_mark = relation_in(schema, "run_mark");
		} while (before != invalidations);
		relations = found;
		relations_valid = true;
		cache_valid = false;
	}
	return &relations;
}

void
source_cache_know_file(PacerLocator file)
{
	relations.slot_file = file;
	relations.slot_file_known = relations_valid;
}

static void
start_cache(void)
{
	HASHCTL		ctl = {0};

	if (cache != NULL)
		hash_destroy(cache);
	cache = NULL;
	ctl.keysize = SOURCE_NAME_MAX + 1;
	ctl.entrysize = sizeof(Source);
	ctl.hcxt = TopMemoryContext;
	cache = hash_create("pg_pacer sources", 64, &ctl, HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	cache_valid = true;
	last_found = NULL;
}

static int64
interval_or(Datum value, bool isnull, int64 otherwise)
{
	int64		us;

	if (isnull)
		return otherwise;
	if (!interval_to_us(DatumGetIntervalP(value), &us))
		return otherwise;
	return us;
}

static void
read_config(HeapTuple tuple, TupleDesc desc, Source *src)
{
	Datum		value[SOURCE_ID + 1];
	bool		null[SOURCE_ID + 1];

	for (int i = 1; i <= SOURCE_ID; i++)
		value[i] = heap_getattr(tuple, i, desc, &null[i]);

	src->source_id = DatumGetInt32(value[SOURCE_ID]);
	src->remembered = DatumGetInt32(value[SOURCE_REMEMBERED]);
	src->config.interval_us = interval_or(value[SOURCE_INTERVAL], null[SOURCE_INTERVAL], 0);
	src->config.burst = DatumGetInt32(value[SOURCE_BURST]);
	src->config.max_waiting = null[SOURCE_MAX_WAITING] ? -1 : DatumGetInt32(value[SOURCE_MAX_WAITING]);
	src->config.max_wait_us = interval_or(value[SOURCE_MAX_WAIT], null[SOURCE_MAX_WAIT], -1);
	src->config.quota = null[SOURCE_QUOTA] ? 0 : DatumGetInt32(value[SOURCE_QUOTA]);
	src->config.quota_window_us = interval_or(value[SOURCE_QUOTA_WINDOW], null[SOURCE_QUOTA_WINDOW], 0);
	src->config.quota_origin_us = DatumGetTimestampTz(value[SOURCE_QUOTA_ORIGIN]);

	/* the triggers see to it; a row that came past them must not divide by 0 */
	if (src->config.interval_us <= 0 || src->config.burst < 1 ||
		(src->config.quota > 0 && src->config.quota_window_us <= 0))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("configuration of source \"%s\" is not valid", src->name)));
}

/* the configuration of src->name; false if there is no such source now */
static bool
find_config(const text *name, Source *src, bool *own)
{
	Relation	rel = table_open(relations.source, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found = false;

	ScanKeyInit(&key, SOURCE_NAME, BTEqualStrategyNumber, F_TEXTEQ, PointerGetDatum(name));
	scan = systable_beginscan(rel, relations.source_pkey, true, SnapshotSelf, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		read_config(tuple, RelationGetDescr(rel), src);
		*own = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
		found = true;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

/* the row of src->source_id; false if there is none now */
static bool
find_row(Source *src, bool *may_keep)
{
	Relation	rel = table_open(relations.slot, NoLock);	/* the caller's lock */
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found = false;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(src->source_id));
	scan = systable_beginscan(rel, relations.slot_pkey, true, SnapshotSelf, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		HeapTupleHeader header = tuple->t_data;

		src->tid = tuple->t_self;
		src->xmin = HeapTupleHeaderGetRawXmin(header);
		src->xmax = HeapTupleHeaderGetRawXmax(header);
		*may_keep = !TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(header)) &&
			((header->t_infomask & HEAP_XMAX_INVALID) ||
			 HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask));
		found = true;
	}
	systable_endscan(scan);
	table_close(rel, NoLock);
	return found;
}

Source *
source_cache_find(const text *name, bool may_cache)
{
	Source		src;
	Source	   *kept;
	size_t		len = VARSIZE_ANY_EXHDR(name);
	bool		configured = false;

	if (len > SOURCE_NAME_MAX)
		return NULL;			/* no source has such a name */
	if (cache_valid && may_cache && last_found != NULL &&
		memcmp(last_found->name, VARDATA_ANY(name), len) == 0 && last_found->name[len] == '\0')
		return last_found;

	memset(&src, 0, sizeof(src));
	memcpy(src.name, VARDATA_ANY(name), len);

	if (!cache_valid || hash_get_num_entries(cache) >= MAX_CACHED)
		start_cache();
	else if (may_cache && (kept = hash_search(cache, src.name, HASH_FIND, NULL)) != NULL)
		return last_found = kept;

	for (int i = 0; i < LOOKUP_ATTEMPTS; i++)
	{
		uint64		before = invalidations;
		bool		own = false;
		bool		may_keep = false;

		configured = find_config(name, &src, &own);
		if (!configured || !find_row(&src, &may_keep))
			continue;
		/* true now, but a message that it is out of date may be past already */
		if (own || !may_keep || before != invalidations)
		{
			uncached = src;
			return &uncached;
		}
		kept = hash_search(cache, src.name, HASH_ENTER, NULL);
		*kept = src;
		return last_found = kept;
	}

	if (configured)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("state of source \"%s\" is missing", src.name),
				 errdetail("There is no row %d in pacer.slot.", src.source_id)));
	return NULL;
}
