/*
 * main.c - the command pgpacer: one verb, one exit status
 *
 * stdout belongs to the command that is run, and to what a verb prints as its answer;
 * messages go to stderr, and there are none when all went well.
 */
#include <locale.h>
#include <string.h>

#include "cli.h"

static const struct
{
	const char *name;
	int			(*run) (const Options *o);
}			verbs[] = {
	{"run", verb_run},
	{"wait", verb_wait},
	{"book", verb_book},
	{"confirm", verb_confirm},
	{"release", verb_release},
	{"pause", verb_pause},
	{"resume", verb_resume},
	{"create", verb_create},
	{"alter", verb_alter},
	{"drop", verb_drop},
	{"list", verb_list},
	{"status", verb_status},
	{"top", verb_top},
};

int
main(int argc, char **argv)
{
	Options		o;

	setlocale(LC_CTYPE, "");	/* of names; numbers and messages stay as they are */
	options_parse(&o, argc, argv);
	if (!o.verb)
		usage_error("which verb? run, wait, book, confirm, release, pause, resume, "
					"create, alter, drop, list, status or top");
	for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
		if (strcmp(o.verb, verbs[i].name) == 0)
			return verbs[i].run(&o);
	usage_error("unknown verb \"%s\"", o.verb);
}
