/*
 * local.h - what the files of the in-process toolkit share
 */
#ifndef PGPACER_LOCAL_LOCAL_H
#define PGPACER_LOCAL_LOCAL_H

#include <pthread.h>

#include "internal.h"
#include "pgpacer_local.h"

/* A token of ours that fires with another one, or when a time has come. */
typedef struct Watch
{
	pgpacer_cancel *child;		/* ours */
	pgpacer_cancel *parent;		/* the caller's; may be NULL */
	pgpacer_cancel *done;		/* fired to end the thread */
	int64_t		until_us;
	bool		running;		/* there is a thread to be joined */
	pthread_t	thread;
} Watch;

/* watch.c */
extern int	watch_begin(Watch *w, pgpacer_cancel *parent, int64_t until_us);
extern void watch_end(Watch *w);
extern int	thread_begin(pthread_t *thread, void *(*body) (void *), void *arg);
extern int	code_of_token(pgpacer_cancel *c);

#endif							/* PGPACER_LOCAL_LOCAL_H */
