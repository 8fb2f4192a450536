/*
 * storage.pml - the storage protocol of ext/README.md, for spin
 *
 * One source, an interval of 1: slots are small numbers. Two sessions book (and give back),
 * somebody writes the page and flushes the log whenever he likes, and the server may crash
 * at any moment. Checked is, in every interleaving:
 *
 *	I2	a slot that was told is never given out again, whatever was lost in a crash
 *	I3	an unlogged word that is believed is one of this run, and the latest
 *
 * What is one step here is one step there because the content lock of the row's page is held:
 * a booking's change (slot_row.c, try_apply), and the write of a page. The rest of a booking
 * (flush, answer) may be interrupted by everything else.
 *
 * Words as there: reserved (reserved_until) and run are logged; head (next_request_at), the
 * LSN of the record that proves reserved, and the one before it (proved) are not.
 *
 * Each of these takes one rule away, and spin must then find where it ends badly:
 *	-DANSWER_BEFORE_FLUSH	the answer does not wait for the log
 *	-DRUN_NOT_CHECKED		what a crash left of the unlogged words is believed
 *	-DPROOF_NOT_FLUSHED		the record before is taken to be durable already
 *	-DPROOF_OF_ANY_RECORD	a mark that did not cover the head counts as proof, too
 *	-DMARK_KEPT				the mark of the run outlives a crash
 *	-DPAGE_BEFORE_LOG		a page is written before the log that it depends on; WAL turned around
 *	-DNO_MARK_RAISED		reserved does not follow the head
 */
#ifndef OPS
#define OPS		3				/* calls of each session between two crashes' worth */
#endif
#ifndef CRASHES
#define CRASHES	2
#endif
#define AHEAD	2				/* reserve_ahead, in slots */
#define SLOTS	31				/* a bit each */
#define RECORDS	(2 * OPS + CRASHES + 2)

/* the page in memory, and as it was last written */
typedef Page
{
	byte		lsn;
	byte		reserved;		/* logged */
	byte		run_mark;		/* logged */
	byte		head;			/* not logged, as are the rest */
	byte		reserved_lsn;
	byte		proved;			/* 0: nothing is proved by the record before */
	byte		proved_lsn
};

typedef Record
{
	byte		reserved;
	byte		run_mark;
	byte		head			/* only in a full image */
};

Page		mem;
Page		disk;
Record		wal[RECORDS];		/* wal[lsn], from 1 on */
byte		written;			/* latest record */
byte		flushed;			/* latest record that is certainly durable */
byte		mark;				/* the unlogged sequence; 0: reset */
byte		runs;				/* marks ever used */
byte		crashes;			/* sessions do not survive one */

/* what only the proof knows */
int			told;				/* slots that somebody was told, one bit each */
byte		truth;				/* the head of this run */

inline log_row()
{
	written++;
	wal[written].reserved = mem.reserved;
	wal[written].run_mark = mem.run_mark;
	wal[written].head = mem.head;
	mem.lsn = written;
	mem.proved_lsn = mem.reserved_lsn;
	mem.reserved_lsn = written
}

/* schedule_enter(): a row of another run speaks through its logged words */
inline enter()
{
	if
	:: mark == 0 -> runs++; mark = runs
	:: else
	fi;
	must_log = false;
#ifndef RUN_NOT_CHECKED
	if
	:: mem.run_mark != mark ->
		mem.head = mem.reserved;
		mem.proved = 0;
		mem.reserved_lsn = 0;
		mem.run_mark = mark;
		must_log = true;
		truth = mem.head
	:: else
	fi;
#endif
	assert(mem.head == truth)	/* I3 */
}

/* schedule_leave(): the marks cover the head, and run in front of it */
inline leave()
{
	covered = !must_log && mem.reserved >= mem.head && mem.reserved - mem.head <= AHEAD;
#ifdef NO_MARK_RAISED
	if
	:: must_log ->
#else
	if
	:: !covered || mem.reserved - mem.head < AHEAD / 2 ->
#endif
#ifdef PROOF_OF_ANY_RECORD
		mem.proved = (must_log -> mem.reserved + AHEAD : mem.reserved);
#else
		mem.proved = (covered -> mem.reserved : 0);
#endif
		mem.reserved = mem.head + AHEAD;
		log_row()
	:: else
	fi;
	truth = mem.head;
	/* proof_of() */
	if
	:: mem.proved > 0 && mem.head <= mem.proved -> proof = mem.proved_lsn
	:: else -> proof = mem.reserved_lsn
	fi
}

/* make_durable() */
inline flush_proof()
{
#ifdef PROOF_NOT_FLUSHED
	if
	:: proof == mem.proved_lsn && proof != mem.reserved_lsn
	:: else -> flushed = (proof > flushed -> proof : flushed)
	fi
#else
	flushed = (proof > flushed -> proof : flushed)
#endif
}

proctype Session()
{
	byte		left = OPS;
	byte		alive;			/* the run that this backend is of */
	byte		slot;
	byte		mine = SLOTS;	/* the last one told to us */
	byte		proof;
	bool		must_log, covered;

	do
	:: atomic { left > 0 ->
		left--;
		alive = crashes;
		enter();
		slot = mem.head;
		assert(slot < SLOTS && (told >> slot) == 0);	/* I2: it and all after it are free */
		mem.head = slot + 1;
		leave() }
		atomic { /* the flush is a step of its own: it may take long */
			if
			:: alive == crashes ->
#ifndef ANSWER_BEFORE_FLUSH
				flush_proof();
#endif
				skip
			:: else
			fi
		}
		atomic { /* and so is the answer */
			if
			:: alive == crashes -> told = told | (1 << slot); mine = slot
			:: else				/* it died with the server, nobody was told */
			fi;
			slot = 0; proof = 0
		}
	/* give back the slot at the end: it is nobody's from there on, the mark may sink */
	:: atomic { left > 0 && mine < SLOTS && mark != 0 && mem.run_mark == mark && mem.head == mine + 1 ->
		left--;
		alive = crashes;
		enter();
		told = told & ~(1 << mine);
		mem.head = mine;
		mine = SLOTS;
		leave() }
		atomic {
			if
			:: alive == crashes -> flush_proof()
			:: else
			fi;
			proof = 0
		}
	:: left == 0 -> break
	od
}

/* the log is flushed by others as well; a page is written after the log up to its LSN */
active proctype Writer()
{
end:
	do
	:: atomic { flushed < written -> flushed++ }
	:: atomic { disk.head != mem.head || disk.lsn != mem.lsn ->
#ifndef PAGE_BEFORE_LOG
		flushed = (mem.lsn > flushed -> mem.lsn : flushed);
#endif
		disk.lsn = mem.lsn;
		disk.reserved = mem.reserved;
		disk.run_mark = mem.run_mark;
		disk.head = mem.head;
		disk.reserved_lsn = mem.reserved_lsn;
		disk.proved = mem.proved;
		disk.proved_lsn = mem.proved_lsn }
	od
}

/*
 * What is left is the page as it was written, and of the log at least what was flushed.
 * Recovery applies what the page does not have yet; a full image brings unlogged words along.
 */
active proctype Crash()
{
	byte		lsn;
	byte		end;

	do
	:: atomic { crashes < CRASHES ->
		crashes++;
		end = flushed;
		do
		:: end < written -> end++
		:: break
		od;
		mem.lsn = disk.lsn;
		mem.reserved = disk.reserved;
		mem.run_mark = disk.run_mark;
		mem.head = disk.head;
		mem.reserved_lsn = disk.reserved_lsn;
		mem.proved = disk.proved;
		mem.proved_lsn = disk.proved_lsn;
		lsn = disk.lsn;
		do
		:: lsn < end ->
			lsn++;
			mem.lsn = lsn;
			mem.reserved = wal[lsn].reserved;
			mem.run_mark = wal[lsn].run_mark;
			if
			:: mem.head = wal[lsn].head
			:: skip
			fi
		:: else -> break
		od;
		written = end;
		flushed = end;
#ifndef MARK_KEPT
		mark = 0;
#endif
		lsn = 0;
		end = 0;
		/* recovery ends with a checkpoint */
		disk.lsn = mem.lsn;
		disk.reserved = mem.reserved;
		disk.run_mark = mem.run_mark;
		disk.head = mem.head;
		disk.reserved_lsn = mem.reserved_lsn;
		disk.proved = mem.proved;
		disk.proved_lsn = mem.proved_lsn }
	:: crashes == CRASHES -> break
	od
}

init
{
	atomic { run Session(); run Session() }
}
