/*
 * boot.h - the mark of this run of the server
 */
#ifndef PACER_BOOT_H
#define PACER_BOOT_H

/*
 * The mark, set first if nobody has done so since the last crash or promotion.
 * fresh: read it anew even if this session has it.  May raise, may read a page;
 * never waits for a transaction.  Not during recovery.
 */
extern int64 boot_mark(Oid sequence, bool fresh);

/* the same for readers: 0 during recovery or if nobody has set it yet */
extern int64 boot_mark_if_set(Oid sequence);

#endif							/* PACER_BOOT_H */
