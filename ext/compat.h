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

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
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
