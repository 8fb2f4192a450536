/*
 * compat.h - every difference between server versions and platforms
 *
 * Supported: PostgreSQL 15 to 18.  Before 15 there is no unlogged sequence to
 * tell a crash by; before 15.5 (16.1) GenericXLogFinish() could dirty a buffer
 * after a checkpoint had passed it.
 */
#ifndef PACER_COMPAT_H
#define PACER_COMPAT_H

#include "postgres.h"

#include "access/xlog.h"
#include "utils/rel.h"

#if PG_VERSION_NUM < 150005 || (PG_VERSION_NUM >= 160000 && PG_VERSION_NUM < 160001)
#error "pg_pacer needs PostgreSQL 15.5, 16.1 or later"
#endif

/* has this transaction given the relation a new file? */
#if PG_VERSION_NUM >= 160000
#define pacer_rewritten_here(rel)	((rel)->rd_firstRelfilelocatorSubid != InvalidSubTransactionId)
#else
#define pacer_rewritten_here(rel)	((rel)->rd_firstRelfilenodeSubid != InvalidSubTransactionId)
#endif

/* which file a relation has */
#if PG_VERSION_NUM >= 160000
typedef RelFileLocator PacerLocator;
#define pacer_locator(rel)	((rel)->rd_locator)
#else
typedef RelFileNode PacerLocator;
#define pacer_locator(rel)	((rel)->rd_node)
#endif

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/*
 * Is an interrupt pending that would end the statement or the session?  The
 * others (barriers, catch-up, reload) are for CHECK_FOR_INTERRUPTS() to serve.
 */
#if PG_VERSION_NUM >= 170000
#define pacer_statement_is_to_end()	(ProcDiePending || QueryCancelPending || \
									 ClientConnectionLost || TransactionTimeoutPending)
#else
#define pacer_statement_is_to_end()	(ProcDiePending || QueryCancelPending || ClientConnectionLost)
#endif

/* of libpq/libpq.h, which wants the headers of Kerberos where that was built in */
extern bool pq_check_connection(void);

/* what pg_stat_activity says of a session that waits for its slot */
#if PG_VERSION_NUM >= 170000
#define pacer_wait_event()			WaitEventExtensionNew("PacerSlot")
#else
#define pacer_wait_event()			PG_WAIT_EXTENSION
#endif

#if PG_VERSION_NUM >= 180000
#define PACER_MODULE_MAGIC	PG_MODULE_MAGIC_EXT(.name = "pg_pacer", .version = PACER_VERSION)
#else
#define PACER_MODULE_MAGIC	PG_MODULE_MAGIC
#endif

/*
 * The clock that goes on while the machine sleeps, as waiters' deadlines do.
 * Linux has it as CLOCK_BOOTTIME; elsewhere the monotonic clock stands in, and
 * a sleep of the machine looks like a step of the wall clock.
 */
#ifdef CLOCK_BOOTTIME
#define PACER_CLOCK_ELAPSED	CLOCK_BOOTTIME
#else
#define PACER_CLOCK_ELAPSED	CLOCK_MONOTONIC
#endif

#endif							/* PACER_COMPAT_H */
