/*
 * map.c - ten downloads, three at a time; a full disk ends them all
 *
 *		$ ./map
 *		item 0 is done
 *		item 1 failed with 404
 *		item 2 was told to stop
 *		item 3 is done
 *		item 4 was told to stop
 *		item 5 stopped the others with 507
 *		item 6 was not begun
 *		...
 */
#include <pgpacer_local.h>
#include <stdio.h>

#define ITEMS		10
#define NOT_FOUND	404
#define DISK_FULL	507
#define GAVE_UP		1

static int
download(const pgpacer_item *item, void *arg)
{
	(void) arg;
	switch (item->index)
	{
		case 1:
			return NOT_FOUND;
		case 5:
			return DISK_FULL;
		case 2:
		case 4:					/* long ones */
			return pgpacer_sleep(60000000, item->cancel) == PGPACER_OK ? 0 : GAVE_UP;
		default:
			return pgpacer_sleep(50000, item->cancel) == PGPACER_OK ? 0 : GAVE_UP;
	}
}

/* One missing page is no reason to stop; a full disk is. */
static int
is_fatal(const pgpacer_item *item, int result, void *arg)
{
	(void) item;
	(void) arg;
	return result == DISK_FULL;
}

int
main(void)
{
	pgpacer_map_options o = PGPACER_MAP_OPTIONS_INIT;
	pgpacer_settled settled[ITEMS];
	int			rc;

	o.workers = 3;
	o.stop = is_fatal;
	rc = pgpacer_map(ITEMS, &o, download, NULL, settled);

	for (int i = 0; i < ITEMS; i++)
	{
		if (settled[i].status == PGPACER_ITEM_DONE)
			printf("item %d is done\n", i);
		else if (settled[i].status == PGPACER_ITEM_CANCELLED)
			printf("item %d was not begun\n", i);
		else if (settled[i].status == PGPACER_ITEM_STOPPED)
			printf("item %d stopped the others with %d\n", i, settled[i].result);
		else if (settled[i].result == GAVE_UP)
			printf("item %d was told to stop\n", i);
		else
			printf("item %d failed with %d\n", i, settled[i].result);
	}
	return rc != PGPACER_CANCELLED;
}
