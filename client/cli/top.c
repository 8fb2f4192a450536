/*
 * top.c - the sources, live: a screen on a terminal, else one table after the other
 *
 * One session, one statement for each look.  On the screen a database that goes away
 * is said in the first line and asked for again at the next look; elsewhere it ends us.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef HAVE_CURSES
#include <curses.h>
#endif

#include "cli.h"

/* the bar's width, and the most it gets on a wide screen */
#define BAR		10
#define MAX_BAR	40

/* the longest lines first; times as float8, in which infinity is a number */
static const char query[] =
"SELECT name, waiting, max_waiting, booked, refused, extract(epoch FROM start_interval)::float8, "
"(extract(epoch FROM next_request_at) - extract(epoch FROM clock_timestamp()))::float8, "
"paused_until IS NOT NULL "
"FROM pacer.status ORDER BY waiting DESC, name LIMIT 500";

enum
{
	NAME, WAITING, MAX_WAITING, BOOKED, REFUSED, INTERVAL, NEXT, PAUSED
};

typedef struct Top
{
	const Options *o;
	PGconn	   *conn;
	pgpacer_cancel *cancel;		/* fired by signals */
	bool		screen;
	bool		quit;			/* q was pressed */
	int			bar;			/* width of the bars */
	PGresult   *res;			/* the latest look, NULL if it failed */
	PGresult   *before;			/* the one before it */
	double		elapsed;		/* seconds between the two */
	char		error[256];
} Top;

static double
now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

/* ------------------------------------------------------------------
 * One line
 * ------------------------------------------------------------------ */

static double
number(const PGresult *res, int row, int column)
{
	return strtod(PQgetvalue(res, row, column), NULL);
}

static void
put_time(char *text, size_t size, double seconds)
{
	if (seconds < 100)
		snprintf(text, size, "%.1f s", seconds);
	else if (seconds < 100 * 60)
		snprintf(text, size, "%.1f min", seconds / 60);
	else if (seconds < 48 * 3600)
		snprintf(text, size, "%.1f h", seconds / 3600);
	else
		snprintf(text, size, "%.3g d", seconds / 86400);
}

/* In the unit in which it reads best: 5/s, 100/min, 0.5/d. */
static void
put_rate(char *text, size_t size, double per_second)
{
	static const struct
	{
		const char *name;
		double		seconds;
	}			per[] = {{"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}};
	size_t		i = 0;

	/* 0.999 allows for intervals that were rounded up */
	while (i < 3 && per_second > 0 && per_second * per[i].seconds < 0.999)
		i++;
	snprintf(text, size, "%.4g/%s", per_second * per[i].seconds, per[i].name);
}

/* How full the line is; one without a bound is measured with the longest of all, the first. */
static void
put_bar(char *bar, int width, const PGresult *res, int row)
{
	double		waiting = number(res, row, WAITING);
	double		full = PQgetisnull(res, row, MAX_WAITING) ? number(res, 0, WAITING) : number(res, row, MAX_WAITING);
	int			n = full > 0 ? (int) ceil(fmin(waiting / full, 1) * width) : 0;

	for (int i = 0; i < width; i++)
		bar[i] = i < n ? '#' : '.';
	bar[width] = '\0';
}

static void
put_next(char *text, size_t size, const PGresult *res, int row)
{
	double		next = number(res, row, NEXT);

	if (PQgetvalue(res, row, PAUSED)[0] == 't')
		snprintf(text, size, "paused");
	else if (PQgetisnull(res, row, NEXT) || next <= 0)
		snprintf(text, size, "now");
	else
		put_time(text, size, next);
}

/* The growth of a counter in a second; a crash of the server lets it begin anew. */
static double
growth(const Top *t, int row, int column)
{
	const char *name = PQgetvalue(t->res, row, NAME);

	for (int i = 0; i < PQntuples(t->before); i++)
		if (strcmp(PQgetvalue(t->before, i, NAME), name) == 0)
			return fmax(number(t->res, row, column) - number(t->before, i, column), 0) / t->elapsed;
	return 0;
}

/* The name comes last, where its length disturbs nothing.  The caller frees the line. */
static char *
line_of(const Top *t, int row)
{
	char		bar[MAX_BAR + 1];
	char		next[32];
	char		limit[32];
	char		rate[32];
	char	   *name = printable(PQgetvalue(t->res, row, NAME));
	char	   *line;

	put_bar(bar, t->bar, t->res, row);
	put_next(next, sizeof next, t->res, row);
	put_rate(limit, sizeof limit, 1 / number(t->res, row, INTERVAL));
	put_rate(rate, sizeof rate, growth(t, row, BOOKED));
	if (asprintf(&line, "%7s %s %9s %8s %8s %7s %5.3g  %s", PQgetvalue(t->res, row, WAITING), bar, next, limit, rate,
				 PQgetvalue(t->res, row, REFUSED), growth(t, row, REFUSED), name) < 0)
		exit(EXIT_FAILED);
	free(name);
	return line;
}

/* What stands above the lines; the caller frees it. */
static char *
head_of(const Top *t)
{
	char	   *head;

	if (asprintf(&head, "%7s %-*s %9s %8s %8s %7s %5s  %s", "WAITING", t->bar, "QUEUE", "NEXT", "LIMIT", "RATE",
				 "REFUSED", "/s", "SOURCE") < 0)
		exit(EXIT_FAILED);
	return head;
}

/* ------------------------------------------------------------------
 * The screen
 * ------------------------------------------------------------------ */

#ifdef HAVE_CURSES

static bool
screen_begin(void)
{
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !newterm(NULL, stdout, stdin))
		return false;
	cbreak();
	noecho();
	nodelay(stdscr, TRUE);
	keypad(stdscr, TRUE);
	curs_set(0);
	return true;
}

static void
screen_end(void)
{
	endwin();
}

static void
screen_draw(Top *t)
{
	char	   *head;

	t->bar = COLS < 80 + BAR ? BAR : COLS - 80 < MAX_BAR ? COLS - 80 : MAX_BAR;
	head = head_of(t);
	erase();
	if (t->error[0] != '\0')
		addnstr(t->error, COLS);
	else
		printw("pgpacer: %d sources, every %.3g s; q quits", PQntuples(t->res), (double) t->o->every_us / 1e6);
	attron(A_REVERSE);
	mvprintw(1, 0, "%-*.*s", COLS, COLS, head);
	attroff(A_REVERSE);
	free(head);
	for (int row = 0; t->res && row < PQntuples(t->res) && row + 2 < LINES; row++)
	{
		char	   *line = line_of(t, row);

		mvaddnstr(row + 2, 0, line, COLS);
		clrtoeol();				/* the rest of a long one above */
		free(line);
	}
	refresh();
}

static void
screen_keys(Top *t)
{
	for (int key = getch(); key != ERR; key = getch())
	{
		if (key == 'q' || key == 'Q')
			t->quit = true;
		if (key == KEY_RESIZE)
			screen_draw(t);
	}
}

#else							/* without ncurses there are the tables */

static bool
screen_begin(void)
{
	return false;
}

static void
screen_end(void)
{
}

static void
screen_draw(Top *t)
{
	(void) t;
}

static void
screen_keys(Top *t)
{
	(void) t;
}

#endif

static bool
plain_draw(const Top *t)
{
	char	   *head = head_of(t);

	puts(head);
	free(head);
	for (int row = 0; row < PQntuples(t->res); row++)
	{
		char	   *line = line_of(t, row);

		puts(line);
		free(line);
	}
	putchar('\n');
	return flush_output(t->o) == 0;
}

/* ------------------------------------------------------------------
 * Looking
 * ------------------------------------------------------------------ */

/*
 * Sleeps until the database has something to read (if it is given), a key is pressed, a
 * signal comes or the time is over.  False: we are to end.
 */
static bool
sleep_until(Top *t, PGconn *conn, double until)
{
	struct pollfd fds[] = {
		{pgpacer_cancel_fd(t->cancel), POLLIN, 0},
		{t->screen ? STDIN_FILENO : -1, POLLIN, 0},
		{conn ? PQsocket(conn) : -1, POLLIN, 0},
	};

	for (;;)
	{
		double		left = until - now_s();

		if (left <= 0)
			return true;
		if (poll(fds, 3, (int) fmin(ceil(left * 1000), 86400000)) < 0 && errno != EINTR)
			return false;
		if (pgpacer_cancel_reason(t->cancel) != 0)
			return false;
		if (t->screen)
			screen_keys(t);
		if (t->quit || (fds[1].revents & (POLLHUP | POLLERR)))
			return false;
		if (fds[2].revents)
			return true;
	}
}

/* Asks, and reads the answer to its end.  False: we are to end. */
static bool
look(Top *t)
{
	PGresult   *next;
	bool		sent;

	PQclear(t->before);
	t->before = t->res;
	t->res = NULL;
	if (!t->conn)
		t->conn = connect_database(&(Options) {.quiet = true,.dbname = t->o->dbname,.host = t->o->host,
							  .port = t->o->port,.user = t->o->user});
	sent = t->conn && PQsendQuery(t->conn, query);
	while (sent && PQisBusy(t->conn))
		if (!sleep_until(t, t->conn, INFINITY))
			return false;
		else if (!PQconsumeInput(t->conn))
			break;
	while (sent && (next = PQgetResult(t->conn)))
	{
		PQclear(t->res);
		t->res = next;
	}
	return true;
}

/* After a look: was it good?  A connection that is not is closed, and opened at the next. */
static bool
judge(Top *t)
{
	const char *message = t->conn ? PQerrorMessage(t->conn) : "the database cannot be reached";

	t->error[0] = '\0';
	if (PQresultStatus(t->res) == PGRES_TUPLES_OK)
		return true;
	if (t->screen)
		snprintf(t->error, sizeof t->error, "%.*s", (int) strcspn(message, "\n"), message);
	else if (t->res)
		result_ok(t->o, t->conn, t->res);
	else
		complain(t->o, "%.*s", (int) strcspn(message, "\n"), message);
	PQclear(t->res);
	t->res = NULL;
	PQfinish(t->conn);
	t->conn = NULL;
	return false;
}

/* Looks and shows until told to end; the exit status. */
static int
watch(Top *t)
{
	double		last = 0;

	for (int n = 1;; n++)
	{
		double		start = now_s();

		if (!look(t))
			return 0;
		t->elapsed = fmax(start - last, 1e-3);
		last = start;
		if (!judge(t) && !t->screen)
			return EXIT_FAILED;
		if (t->screen)
			screen_draw(t);
		else if (!plain_draw(t))
			return EXIT_FAILED;
		if (n == t->o->count || !sleep_until(t, NULL, start + (double) t->o->every_us / 1e6))
			return 0;
	}
}

int
verb_top(const Options *o)
{
	Top			t = {.o = o,.bar = BAR};
	int			status;
	int			reason;

	need_args(o, 0, 0, "[OPTION]...");
	t.conn = connect_database(o);
	if (!t.conn)
		return EXIT_FAILED;
	t.cancel = make_token(o);	/* from here on signals end the screen in order */
	t.screen = screen_begin();
	status = watch(&t);
	if (t.screen)
		screen_end();
	PQclear(t.res);
	PQclear(t.before);
	PQfinish(t.conn);
	reason = pgpacer_cancel_reason(t.cancel);
	if (reason > 0)
		die_by_signal(reason);
	pgpacer_cancel_free(t.cancel);
	return status;
}
