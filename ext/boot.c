/*
 * boot.c - the mark of this run of the server
 *
 * pacer.run_mark is an unlogged sequence: PostgreSQL resets it to its initial
 * contents (is_called = false) after a crash and at the end of a standby's
 * recovery, and keeps it over a clean restart.  The first booking that finds it
 * reset sets it to a number never used before.  A slot row that carries this
 * number was written in this run; any other is believed in its logged half
 * only (invariant I3).
 *
 * The page is written here directly.  setval() would check the rights of the
 * caller, who need not have any, and lock the sequence until his transaction
 * ends.  Nothing is logged, as for every unlogged relation: a crash resets the
 * page in any case.
 *
 * A session keeps the mark for life, by the sequence's OID: no session survives
 * a crash, and one opened on a standby does not read it before the promotion is
 * over.  If somebody resets the sequence by hand, the sessions disagree until
 * each meets a row of the other and reads the mark afresh; until then they
 * believe the logged half, which is late but never early.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xlog.h"
#include "boot.h"
#include "catalog/pg_class.h"
#include "commands/sequence.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

static Oid	known_sequence = InvalidOid;
static int64 known_mark = 0;

static Relation
open_sequence(Oid sequence)
{
	Relation	rel = relation_open(sequence, AccessShareLock);

	/* a logged one would survive the crash that it is to reveal */
	if (rel->rd_rel->relkind != RELKIND_SEQUENCE ||
		rel->rd_rel->relpersistence != RELPERSISTENCE_UNLOGGED)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" is not an unlogged sequence", RelationGetRelationName(rel)),
				 errdetail("Without it a crash of the server cannot be told, and slots could be given twice."),
				 errhint("Use ALTER SEQUENCE pacer.run_mark SET UNLOGGED.")));
	return rel;
}

/* the sequence's only tuple; the caller holds a lock on the buffer's content */
static FormData_pg_sequence_data *
sequence_data(Buffer buf)
{
	Page		page = BufferGetPage(buf);
	ItemId		lp = PageGetItemId(page, FirstOffsetNumber);
	HeapTupleHeader tuple = (HeapTupleHeader) PageGetItem(page, lp);

	return (FormData_pg_sequence_data *) ((char *) tuple + tuple->t_hoff);
}

int64
boot_mark(Oid sequence, bool fresh)
{
	Relation	rel;
	Buffer		buf;
	FormData_pg_sequence_data *data;
	int64		drawn = 0;
	int64		mark;

	if (known_sequence == sequence && !fresh)
		return known_mark;

	/* drawn beforehand: nothing may fail under the lock.  A time would not do. */
	while (drawn == 0)
	{
		if (!pg_strong_random(&drawn, sizeof(drawn)))
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not generate a random number")));
		drawn &= (INT64CONST(1) << 62) - 1;
	}

	rel = open_sequence(sequence);
	buf = ReadBuffer(rel, 0);
	LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
	data = sequence_data(buf);
	if (!data->is_called)
	{
		data->last_value = drawn;
		data->is_called = true;
		MarkBufferDirty(buf);
	}
	mark = data->last_value;
	UnlockReleaseBuffer(buf);
	relation_close(rel, AccessShareLock);

	known_sequence = sequence;
	known_mark = mark;
	return mark;
}

int64
boot_mark_if_set(Oid sequence)
{
	Relation	rel;
	Buffer		buf;
	FormData_pg_sequence_data *data;
	int64		mark = 0;

	/* on a standby the file does not even exist */
	if (RecoveryInProgress())
		return 0;
	if (known_sequence == sequence)
		return known_mark;

	rel = open_sequence(sequence);
	buf = ReadBuffer(rel, 0);
	LockBuffer(buf, BUFFER_LOCK_SHARE);
	data = sequence_data(buf);
	if (data->is_called)
		mark = data->last_value;
	UnlockReleaseBuffer(buf);
	relation_close(rel, AccessShareLock);
	return mark;
}
