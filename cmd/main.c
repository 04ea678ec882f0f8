// SPDX-License-Identifier: Apache-2.0
/*
 * main.c - the verbs. Each is one row here and one file beside this one.
 */
#include "flags.h"
#include "verbs.h"
#include "../vmm/log.h"
#include <fcntl.h>

static const struct verb {
	const char *name, *args, *help;
	int (*run)(int argc, char **argv);
} verbs[] = {
	{"boot", "[CONFIG.json] [-t SECONDS] [-v] [FLAGS]",
	 "run a machine, its console on this terminal", verb_boot},
	{"check", "[CONFIG.json] [FLAGS]", "print the effective configuration as JSON", verb_check},
	{"devices", "[SECTION]", "every key of the configuration, with its default", verb_devices},
	{"doctor", "[--quiet]", "what this host can do, and what to do about the rest",
	 verb_doctor},
	{"version", "", "the version", verb_version},
};

static void usage(FILE *f)
{
	fprintf(f, "usage: wherry VERB ...\n\n");
	for (unsigned i = 0; i < ARRAY_LEN(verbs); i++)
		fprintf(f, "  %-8s %-42s %s\n", verbs[i].name, verbs[i].args, verbs[i].help);
	fprintf(f,
		"\nflags of boot and check (a flag adds to the file or changes what it says):\n");
	flags_help(f);
	fprintf(f, "\nOn a terminal, Ctrl-A x ends the machine and Ctrl-A a sends a Ctrl-A.\n"
		   "SIGUSR1 has a machine look again how large its drives are.\n"
		   "exit status of boot: 0 powered off or rebooted, 120 guest panic, 121 guest "
		   "died, 124 time limit,\n"
		   "125 could not start, 128+N ended by signal N\n");
}

/* A closed descriptor 0, 1 or 2 would become one of ours, and the guest's console would be written into it. */
static void keep_stdio(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

/* Anywhere in a verb's arguments: who asks for help wants nothing done. */
static bool asks_help(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			return true;
	return false;
}

static int run(int argc, char **argv)
{
	if (argc < 2) {
		usage(stderr);
		return EXIT_NO_START;
	}
	if (asks_help(argc, argv) || !strcmp(argv[1], "help")) {
		usage(stdout);
		return 0;
	}
	if (!strcmp(argv[1], "--version"))
		return verb_version(argc, argv);
	for (unsigned i = 0; i < ARRAY_LEN(verbs); i++)
		if (!strcmp(argv[1], verbs[i].name))
			return verbs[i].run(argc - 1, argv + 1);
	log_err("%s: no such verb; `wherry --help` lists them", argv[1]);
	return EXIT_NO_START;
}

int main(int argc, char **argv)
{
	int status;

	keep_stdio();
	status = run(argc, argv);
	/* Output that did not arrive is a failure of every verb. */
	if (fflush(stdout) || ferror(stdout)) {
		log_err("standard output: %m: give it room, or another file");
		return EXIT_NO_START;
	}
	return status;
}
