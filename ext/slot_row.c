/*
 * slot_row.c - run a verb of the schedule on a source's row
 *
 * The storage protocol: the only file that touches the pages of pacer.slot.
 * README.md draws the row and names the invariants (I1 ..) and races.
 *
 * A row is changed in place, under the exclusive lock on its buffer's content
 * and no other lock that lasts.  Its logged half is written through a generic
 * WAL record, its unlogged half like a hint bit: dirty the buffer, log nothing.
 * Most bookings of a busy source need only the latter, because reserved_until
 * runs ahead of the head.  A crash loses the unlogged half, and the logged mark,
 * which is at or after every slot told, stands in.
 *
 * Why this is not heap_inplace_update(): that takes no account of who reads the
 * clock when, and logs every change.  Why it is not unsafe:
 *
 * - A tuple's data may change under readers that hold only a pin.  Here every
 *   reader that needs more than one word goes through slot_row_read(), which
 *   takes the share lock.
 * - Generic WAL is a byte-wise delta against this page.  A replica's unlogged
 *   bytes differ, so none may ever be part of it: within a GenericXLog image
 *   only the logged words change, and words are as wide as the gap the delta
 *   may bridge, twice.
 * - A torn page can only tear unlogged words, which are then not believed, or a
 *   page whose full image is in the log.
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "access/htup_details.h"
#include "access/parallel.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlogutils.h"
#include "boot.h"
#include "compat.h"
#include "miscadmin.h"
#include "pacer_clock.h"
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "slot_row.h"
#include "source_cache.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/builtins.h"

#define ROW_LAYOUT			1
#define LOOKUP_ATTEMPTS		3

int			slot_row_reserve_ahead = 1000;
int			slot_row_clock_tolerance = 10;

/* the tuple's data, as CREATE TABLE pacer.slot lays it out */
typedef struct SlotRow
{
	int32		slot_id;
	int32		layout;
	ScheduleLogged logged;
	ScheduleUnlogged un;
	int32		remembered;
	int32		recent_header;	/* bytea, plain */
	ScheduleEntry recent[FLEXIBLE_ARRAY_MEMBER];
} SlotRow;

StaticAssertDecl(sizeof(ScheduleLogged) == 10 * 8 && sizeof(ScheduleUnlogged) == 26 * 8,
				 "the columns of pacer.slot are 8-byte words");
StaticAssertDecl(offsetof(SlotRow, recent) % 8 == 0, "entries are aligned");
StaticAssertDecl(sizeof(ScheduleEntry) == 32, "an entry has 32 bytes");

static Schedule work;			/* 6.7 kB: not on the stack, not allocated */

static Size
row_length(int32 remembered)
{
	return MAXALIGN(SizeofHeapTupleHeader) + offsetof(SlotRow, recent) +
		remembered * sizeof(ScheduleEntry);
}

/*
 * The row in a page, if it is still the one that the look-up found; NULL if
 * not.  Bytes are compared and nothing else: whether a transaction committed is
 * a question that may sleep and raise.  xmax may be that of a lock, or the very
 * one that the look-up found not to have deleted the row.
 */
static SlotRow *
row_in(Page page, const Source *src)
{
	OffsetNumber off = ItemPointerGetOffsetNumber(&src->tid);
	ItemId		lp;
	HeapTupleHeader header;
	SlotRow    *row;

	if (off > PageGetMaxOffsetNumber(page))
		return NULL;
	lp = PageGetItemId(page, off);
	if (!ItemIdIsNormal(lp) || ItemIdGetLength(lp) != row_length(src->remembered))
		return NULL;

	header = (HeapTupleHeader) PageGetItem(page, lp);
	if (HeapTupleHeaderGetRawXmin(header) != src->xmin ||
		header->t_hoff != MAXALIGN(SizeofHeapTupleHeader))
		return NULL;
	if (!(header->t_infomask & HEAP_XMAX_INVALID) &&
		!HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask) &&
		HeapTupleHeaderGetRawXmax(header) != src->xmax)
		return NULL;

	row = (SlotRow *) ((char *) header + header->t_hoff);
	if (row->slot_id != src->source_id || row->layout != ROW_LAYOUT ||
		row->remembered != src->remembered)
		return NULL;
	return row;
}

/*
 * pacer.slot, locked.  Opening it costs as much as a booking, so that is left
 * undone where the file is known from before and the page is still in the
 * buffer where it was the last time.
 */
typedef struct SlotTable
{
	Oid			relid;
	Relation	rel;			/* NULL: not opened */
	bool		file_known;		/* and has passed check_slot_relation() */
	PacerLocator file;
} SlotTable;

static Relation
slot_relation(SlotTable *table)
{
	if (table->rel == NULL)
		table->rel = table_open(table->relid, NoLock);
	return table->rel;
}

/* pin the row's page */
static Buffer
read_buffer(SlotTable *table, Source *src)
{
	BlockNumber block = ItemPointerGetBlockNumber(&src->tid);

	if (!table->file_known || !BufferIsValid(src->buffer) ||
		!ReadRecentBuffer(table->file, MAIN_FORKNUM, block, src->buffer))
		src->buffer = ReadBuffer(slot_relation(table), block);
	return src->buffer;
}

/* copy the row for the verb to work on */
static void
load(const SlotRow *row)
{
	work.logged = row->logged;
	work.un = row->un;
	work.remembered = row->remembered;
	memcpy(work.recent, row->recent, row->remembered * sizeof(ScheduleEntry));

	/* written by somebody else: at least do not run out of bounds */
	if (work.un.nrecent < 0 || work.un.nrecent > work.remembered ||
		work.un.first < 0 || work.un.first >= work.remembered)
		work.logged.run = 0;
}

/*
 * Write the logged half.  The image that GenericXLog hands out is changed in
 * the logged words alone, and the page's unlogged words change only after it is
 * finished, so that no unlogged byte gets into the record (I3).
 */
static void
write_logged(GenericXLogState *log, Buffer buf, const Source *src)
{
	Page		image = GenericXLogRegisterBuffer(log, buf, 0);

	row_in(image, src)->logged = work.logged;
	work.un.proved_lsn = work.un.reserved_lsn;
	work.un.reserved_lsn = (int64) GenericXLogFinish(log);
}

/* as memcpy of whole words, but memory that is the same already is not written */
static void
write_changed(void *to, const void *from, Size length)
{
	const Size	stride = 64;	/* a cache line, mostly */

	for (Size done = 0; done < length; done += stride)
	{
		int64	   *word = (int64 *) ((char *) to + done);
		const int64 *new_word = (const int64 *) ((const char *) from + done);
		Size		n = Min(stride, length - done);

		if (memcmp(word, new_word, n) == 0)
			continue;
		for (Size i = 0; i < n / sizeof(int64); i++)
			if (word[i] != new_word[i])
				word[i] = new_word[i];
	}
}

/*
 * The content lock is held exclusively.  Most verbs change a few words and one
 * entry; the others' cache lines need not travel between processors with every
 * booking of a hot source.
 */
static void
write_unlogged(SlotRow *row)
{
	write_changed(&row->un, &work.un, sizeof(ScheduleUnlogged));
	write_changed(row->recent, work.recent, work.remembered * sizeof(ScheduleEntry));
}

/*
 * Dirty the buffer after a change that is not logged.  As for a hint bit this
 * logs a full image after a checkpoint where checksums ask for one.  Where the
 * relation's changes are not logged at all (wal_level minimal, file made by
 * this transaction) the hint would be dropped; the file is synced at commit and
 * has no older image to be torn against, so it is simply dirtied.
 */
static void
mark_dirty(const SlotTable *table, Buffer buf)
{
	if (table->file_known || RelationNeedsWAL(table->rel))
		MarkBufferDirtyHint(buf, true);
	else
		MarkBufferDirty(buf);
}

/* what has to be durable before the answer, and what should be before long */
typedef struct Proof
{
	XLogRecPtr	now;
	XLogRecPtr	soon;			/* invalid: nothing new */
} Proof;

static Proof
proof_of(const ScheduleUnlogged *un, bool logged)
{
	Proof		proof = {.now = (XLogRecPtr) un->reserved_lsn};

	if (schedule_proved_before(un))
	{
		proof.now = (XLogRecPtr) un->proved_lsn;
		if (logged)
			proof.soon = (XLogRecPtr) un->reserved_lsn;
	}
	return proof;
}

typedef enum TryResult
{
	TRY_DONE,
	TRY_MOVED,					/* not that row any more: look up again */
	TRY_STALE,					/* of another run: read the mark afresh */
	TRY_LOG						/* needs the log, for which nothing is prepared */
} TryResult;

/*
 * One try.  Between LockBuffer and unlock there is no palloc, no ereport, no
 * snapshot or clog test, no interrupt check and no second buffer (I4); the only
 * waits are those inside XLogInsert.  GenericXLogStart() allocates, therefore it
 * has been called before or not at all.
 */
static TryResult
try_apply(const SlotTable *table, Buffer buf, const Source *src, const ScheduleConfig *cfg,
		  int64 run, bool run_is_fresh, GenericXLogState *log,
		  SlotVerb verb, void *arg, Proof *proof)
{
	TryResult	result = TRY_DONE;
	SlotVerdict verdict;
	ScheduleClock clk;
	SlotRow    *row;
	bool		settled;

	LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
	row = row_in(BufferGetPage(buf), src);
	if (row == NULL)
		result = TRY_MOVED;
	else if (row->logged.run != run && !run_is_fresh)
		result = TRY_STALE;
	else
	{
		clk = pacer_clock_read();	/* now, not before the lock (I1) */
		load(row);
		schedule_enter(&work, cfg, &clk, run);
		settled = !work.must_log;
		verdict = verb(&work, cfg, clk.wall, arg);

		if (verdict == SLOT_REFUSE && settled)
		{
			row->un.refused++;
			mark_dirty(table, buf);
		}
		else if (verdict == SLOT_KEEP && schedule_leave(&work, cfg, &clk))
		{
			if (log == NULL)
				result = TRY_LOG;
			else
			{
				write_logged(log, buf, src);
				write_unlogged(row);
				*proof = proof_of(&work.un, true);
				log = NULL;
			}
		}
		else if (verdict == SLOT_KEEP)
		{
			write_unlogged(row);
			mark_dirty(table, buf);
			*proof = proof_of(&work.un, false);
		}
	}
	LockBuffer(buf, BUFFER_LOCK_UNLOCK);

	if (log != NULL)
		GenericXLogAbort(log);
	return result;
}

/*
 * What a commit does before it answers, for the record that proves the answer
 * (I2).  It is the row's and not the page's: the page's LSN moves with every
 * neighbour.  A transaction without an XID would not flush by itself.
 *
 * A record that answers will depend on later is left to the WAL writer.
 */
static void
make_durable(Proof proof, bool with_commit)
{
	if (!XLogRecPtrIsInvalid(proof.soon))
		XLogSetAsyncXactLSN(proof.soon);
	if (XLogRecPtrIsInvalid(proof.now))
		return;
	if (synchronous_commit == SYNCHRONOUS_COMMIT_OFF)
	{
		XLogSetAsyncXactLSN(proof.now);
		return;
	}

	/*
	 * The commit record of a transaction that has written to the log comes
	 * after the proof, and is flushed (and waited for at a standby) before
	 * anybody is told.  Without an XID there is none, and if nothing was logged
	 * it is not flushed.
	 */
	if (with_commit && TransactionIdIsValid(GetTopTransactionIdIfAny()) &&
		!XLogRecPtrIsInvalid(XactLastRecEnd))
		return;

	XLogFlush(proof.now);

	/*
	 * As in COMMIT: a cancelled wait warns and returns, for the booking stands
	 * whether or not the standby has it.
	 */
	if (SyncRepRequested())
	{
		HOLD_INTERRUPTS();
		SyncRepWaitForLSN(proof.now, false);
		RESUME_INTERRUPTS();
	}
}

static void
check_slot_relation(Relation rel)
{
	/* an unlogged row would not be there after a crash */
	if (rel->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table pacer.slot is not logged"),
				 errhint("Use ALTER TABLE pacer.slot SET LOGGED.")));

	/* the booking would go into a file that a rollback throws away */
	if (pacer_rewritten_here(rel))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot book while this transaction rewrites pacer.slot")));
}

/* Taking the lock accepts invalidations: what the session knows is current then. */
static SlotTable
lock_slot(Oid fn, LOCKMODE mode)
{
	SlotTable	table = {0};
	const PacerRelations *relations;

	for (;;)
	{
		table.relid = source_cache_relations(fn)->slot;
		LockRelationOid(table.relid, mode);
		relations = source_cache_relations(fn);
		if (relations->slot == table.relid)
			break;
		/* the extension was dropped and made again meanwhile */
		UnlockRelationOid(table.relid, mode);
	}

	table.file_known = relations->slot_file_known;
	table.file = relations->slot_file;
	return table;
}

static void
unlock_slot(SlotTable *table, LOCKMODE mode)
{
	if (table->rel != NULL)
		table_close(table->rel, NoLock);
	UnlockRelationOid(table->relid, mode);
}

/*
 * Replicas differ from the primary in the unlogged bytes by design.  With this
 * developers' setting the server would take that for corruption, and never come
 * up again: the flag is in the records.
 */
static void
check_consistency_checking(void)
{
	if (wal_consistency_checking_string != NULL && wal_consistency_checking_string[0] != '\0')
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot book while wal_consistency_checking is set"),
				 errdetail("The rows of pacer.slot differ between primary and replica in what is not logged; recovery would fail on them."),
				 errhint("Set wal_consistency_checking to an empty string.")));
}

static ScheduleConfig
config_of(const Source *src)
{
	ScheduleConfig cfg = src->config;

	cfg.reserve_ahead_us = (int64) slot_row_reserve_ahead * 1000;
	cfg.clock_tolerance_us = (int64) slot_row_clock_tolerance * 1000;
	return cfg;
}

void
slot_row_no_source(const text *source)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("source \"%s\" does not exist", text_to_cstring(source))));
}

static Source *
find_source(const text *name, bool may_cache)
{
	Source	   *src = source_cache_find(name, may_cache);

	if (src == NULL)
		slot_row_no_source(name);
	return src;
}

static void
moved_too_often(const Source *src)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("state of source \"%s\" is not usable", src->name),
			 errdetail("Row %d of pacer.slot is not as pg_pacer wrote it, or is being changed by somebody else.",
					   src->source_id)));
}

/*
 * Tries until one is done.  Each repetition has its own reason, and none can
 * come twice without something else having changed: the row was looked up
 * again, the mark was read, the record was prepared.
 */
static Proof
apply_to_source(SlotTable *table, Oid run_mark, const text *name,
				SlotVerb verb, void *arg)
{
	Source	   *src = find_source(name, true);
	ScheduleConfig cfg = config_of(src);
	int64		run = boot_mark(run_mark, false);
	Proof		proof = {InvalidXLogRecPtr, InvalidXLogRecPtr};
	bool		fresh = false;
	bool		logs = false;
	int			moved = 0;

	for (;;)
	{
		Buffer		buf = read_buffer(table, src);
		GenericXLogState *log = logs ? GenericXLogStart(slot_relation(table)) : NULL;
		TryResult	result;

		result = try_apply(table, buf, src, &cfg, run, fresh, log, verb, arg, &proof);
		ReleaseBuffer(buf);
		switch (result)
		{
			case TRY_DONE:
				return proof;
			case TRY_MOVED:
				if (++moved > LOOKUP_ATTEMPTS)
					moved_too_often(src);
				src = find_source(name, false);
				cfg = config_of(src);
				break;
			case TRY_STALE:
				run = boot_mark(run_mark, true);
				fresh = true;
				break;
			case TRY_LOG:
				check_consistency_checking();
				logs = true;
				break;
		}
	}
}

void
slot_row_apply(FunctionCallInfo fcinfo, const text *source, const char *command,
			   SlotVerb verb, void *arg, bool with_commit)
{
	SlotTable	table;
	Proof		proof;

	PreventCommandDuringRecovery(command);
	PreventCommandIfReadOnly(command);
	PreventCommandIfParallelMode(command);

	/*
	 * The lock of a writer: it keeps out those who move rows or build indexes.
	 * It is released before the flush and long before the commit, so that an
	 * open transaction that has booked is in nobody's way (I5).
	 */
	table = lock_slot(fcinfo->flinfo->fn_oid, RowExclusiveLock);
	if (!table.file_known)
	{
		check_slot_relation(slot_relation(&table));
		if (RelationNeedsWAL(table.rel))
			source_cache_know_file(pacer_locator(table.rel));
	}
	proof = apply_to_source(&table, source_cache_relations(fcinfo->flinfo->fn_oid)->run_mark,
							source, verb, arg);
	unlock_slot(&table, RowExclusiveLock);

	make_durable(proof, with_commit);
}

/* copy the row under the share lock; false if it is not that row any more */
static bool
read_once(SlotTable *table, Source *src)
{
	Buffer		buf = read_buffer(table, src);
	SlotRow    *row;

	LockBuffer(buf, BUFFER_LOCK_SHARE);
	row = row_in(BufferGetPage(buf), src);
	if (row != NULL)
		load(row);
	UnlockReleaseBuffer(buf);
	return row != NULL;
}

bool
slot_row_read(FunctionCallInfo fcinfo, const text *source, SlotVerb verb, void *arg,
			  bool *believed)
{
	SlotTable	table = lock_slot(fcinfo->flinfo->fn_oid, AccessShareLock);
	Source	   *src;
	ScheduleConfig cfg;
	ScheduleClock clk;
	int64		run;

	run = boot_mark_if_set(source_cache_relations(fcinfo->flinfo->fn_oid)->run_mark);
	src = source_cache_find(source, true);
	for (int moved = 0; src != NULL && !read_once(&table, src); moved++)
	{
		if (moved >= LOOKUP_ATTEMPTS)
			moved_too_often(src);
		src = source_cache_find(source, false);
	}
	unlock_slot(&table, AccessShareLock);
	if (src == NULL)
		return false;

	cfg = config_of(src);
	clk = pacer_clock_read();
	*believed = run != 0 && work.logged.run == run;
	schedule_enter(&work, &cfg, &clk, *believed ? run : -1);
	(void) verb(&work, &cfg, clk.wall, arg);
	return true;
}
