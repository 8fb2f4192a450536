/*
 * map.c - many items, few workers
 *
 * All workers take their items from one cursor, so each is as busy as the others
 * whatever the items cost, and the items begin in order.
 * Guarantees: every item is settled; nothing is begun after the map was stopped.
 */
#include <stdlib.h>

#include "local.h"

typedef struct Map
{
	size_t		n;
	pgpacer_map_work work;
	pgpacer_map_stop stop;
	void	   *arg;
	pgpacer_settled *settled;	/* may be NULL */
	pgpacer_cancel *cancel;		/* that of the items */
	pthread_mutex_t mutex;		/* of the two below, and one stop() at a time */
	size_t		next;			/* the cursor */
	bool		stopped;		/* by stop() */
} Map;

typedef struct Worker
{
	Map		   *map;
	int			number;
	pthread_t	thread;
} Worker;

/*
 * The token is looked at under the lock: an item is either taken before the map was
 * stopped or not at all.
 */
static bool
take_item(Map *map, pgpacer_item *item)
{
	bool		taken;

	pthread_mutex_lock(&map->mutex);
	taken = map->next < map->n && pgpacer_cancel_reason(map->cancel) == 0;
	if (taken)
		item->index = map->next++;
	pthread_mutex_unlock(&map->mutex);
	return taken;
}

/* Does this failure stop the others?  The first that does is the one. */
static bool
stops_map(Map *map, const pgpacer_item *item, int result)
{
	bool		stops = false;

	if (!map->stop)
		return false;
	pthread_mutex_lock(&map->mutex);
	if (!map->stopped && map->stop(item, result, map->arg))
	{
		stops = map->stopped = true;
		pgpacer_cancel_fire(map->cancel, 1);
	}
	pthread_mutex_unlock(&map->mutex);
	return stops;
}

static void *
work_on(void *arg)
{
	Worker	   *worker = arg;
	Map		   *map = worker->map;
	pgpacer_item item = {.worker = worker->number,.cancel = map->cancel};

	while (take_item(map, &item))
	{
		int			result = map->work(&item, map->arg);
		int			status = result == 0 ? PGPACER_ITEM_DONE :
			stops_map(map, &item, result) ? PGPACER_ITEM_STOPPED : PGPACER_ITEM_FAILED;

		/* each place is written by one thread, and read after that was joined */
		if (map->settled)
			map->settled[item.index] = (pgpacer_settled) {.status = status,.result = result};
	}
	return NULL;
}

/* This thread is worker 0; those that the system does not give are done without. */
static void
work_together(Map *map, Worker *workers, int nworkers)
{
	int			begun = 1;

	for (int i = 0; i < nworkers; i++)
		workers[i] = (Worker) {.map = map,.number = i};
	while (begun < nworkers && thread_begin(&workers[begun].thread, work_on, &workers[begun]) == 0)
		begun++;
	work_on(&workers[0]);
	while (--begun > 0)
		pthread_join(workers[begun].thread, NULL);
}

int
pgpacer_map(size_t n, const pgpacer_map_options *options, pgpacer_map_work work, void *arg, pgpacer_settled *settled)
{
	pgpacer_map_options o = PGPACER_MAP_OPTIONS_INIT;
	Map			map = {.n = n,.work = work,.arg = arg,.settled = settled};
	Worker	   *workers;
	Watch		watch;
	int			rc;

	if (!work || !options_copy(&o, sizeof o, options) || o.workers < 1)
		return PGPACER_INVALID;
	for (size_t i = 0; settled && i < n; i++)
		settled[i] = (pgpacer_settled) {.status = PGPACER_ITEM_CANCELLED};
	if ((size_t) o.workers > n)
		o.workers = n > 0 ? (int) n : 1;
	workers = calloc((size_t) o.workers, sizeof *workers);
	if (!workers)
		return PGPACER_NO_MEMORY;
	rc = watch_begin(&watch, o.cancel, PGPACER_NO_LIMIT);
	if (rc == PGPACER_OK)
	{
		map.stop = o.stop;
		map.cancel = watch.child;
		pthread_mutex_init(&map.mutex, NULL);
		work_together(&map, workers, o.workers);
		pthread_mutex_destroy(&map.mutex);
		if (map.next < n)
			rc = code_of_token(map.cancel);
		watch_end(&watch);
	}
	free(workers);
	return rc;
}
