// SPDX-License-Identifier: Apache-2.0
/*
 * main.c - does a directory behave as a Linux file system does?
 *
 *   fssuite [-n LACKS] [-c CHECKS] [-x CHECKS] [-m MANY] [-r ROUNDS] [-s SEC] [-p PREFIX] [-v] DIR
 *   fssuite -l | -R DIR | -M FILE | -D FILE | -C FILE | -L FD [COMMAND...] | -P FD [COMMAND...]
 * Everything is expected of the directory but what -n names (words of feature_names[], with commas);
 * what is not there must be refused in the right way. Each check runs in a directory and a process
 * of its own, for at most SEC seconds (300), and gives a line "@@ ok SENTENCE", "@@ not ok SENTENCE
 * (where: what: errno)" or "@@ skip SENTENCE: why", PREFIX before each sentence. -c runs only the checks named, -x leaves them out, -l lists them.
 * -R, -M, -D and -C: see readonly.c and hostmap.c. -L and -P lock a file that the shell has open, by flock and by fcntl, and run
 * COMMAND, or fail at once. Linked statically: the guests have no libraries.
 * Nothing here knows which file system it talks to: run on a local one first, it must find nothing.
 */
#include "suite.h"
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>

static const char *const feature_names[] = {
	"root",   "users", "chown",    "devices", "xattr", "trusted",  "acl",    "mmap", "tmpfile",
	"punch",  "zero",  "collapse", "flags",   "btime", "lockintr", "direct", "copy", "whiteout",
	"slinks", "tail",  "groups",   "hidden",  "dated", "renames",  "alloc",  "fine", "apart",
};
_Static_assert(1 << ARRAY_LEN(feature_names) == FEATURES + 1, "a name per feature");

static const struct check *const tables[] = {
	io_checks,    open_checks, name_checks,    link_checks,  rename_checks, dir_checks,
	space_checks, mode_checks, user_checks,    time_checks,  xattr_checks,  acl_checks,
	lock_checks,  map_checks,  special_checks, crowd_checks, model_checks,
};

/* What a check's processes say of it, in memory they share with us. */
struct result {
	char file[32], what[160], skip[120];
	int line, error;
};
static struct result *result;

static struct {
	unsigned have, many, rounds, seconds;
	const char *only, *without, *prefix;
	bool verbose;
} suite = {.have = FEATURES, .many = 1000, .rounds = 400, .seconds = 300, .prefix = ""};

bool have(unsigned features)
{
	return (suite.have & features) == features;
}

unsigned suite_many(void)
{
	return suite.many;
}

unsigned suite_times(unsigned n)
{
	n = n * suite.many / 1000;
	return n < 5 ? 5 : n;
}

unsigned suite_rounds(void)
{
	return suite.rounds;
}

bool fail_at(const char *file, int line, const char *what, int error)
{
	const char *base = strrchr(file, '/');

	if (result->line)
		return false;
	snprintf(result->file, sizeof(result->file), "%s", base ? base + 1 : file);
	snprintf(result->what, sizeof(result->what), "%s", what);
	result->error = error;
	result->line = line;
	return false;
}

bool skip(const char *why)
{
	snprintf(result->skip, sizeof(result->skip), "%s", why);
	return true;
}

/* "a,b" as a set; false if a word is not known. */
static bool features_parse(const char *words, unsigned *set)
{
	*set = 0;
	while (*words) {
		size_t n = strcspn(words, ","), i;

		for (i = 0; i < ARRAY_LEN(feature_names); i++)
			if (strlen(feature_names[i]) == n && !strncmp(words, feature_names[i], n))
				break;
		if (n && i == ARRAY_LEN(feature_names))
			return false;
		if (n)
			*set |= 1u << i;
		words += n + (words[n] == ',');
	}
	return true;
}

static bool named(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = list; (p = strstr(p, name)); p += n)
		if ((p == list || p[-1] == ',') && (p[n] == 0 || p[n] == ','))
			return true;
	return false;
}

static void run_here(const struct check *c)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setpgid(0, 0);
	umask(022);
	alarm(suite.seconds);
	_exit(chdir(c->name) == 0 && c->run() ? 0 : 1);
}

static void say_failed(const struct check *c, int status)
{
	printf("@@ not ok %s%s (", suite.prefix, c->sentence);
	if (result->line)
		printf("%s:%d: %s: %s", result->file, result->line, result->what,
		       strerror(result->error));
	else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		printf("%s: no end after %u s", c->name, suite.seconds);
	else if (WIFSIGNALED(status))
		printf("%s: died by signal %d", c->name, WTERMSIG(status));
	else
		printf("%s: ended with status %d", c->name, WEXITSTATUS(status));
	printf(")\n");
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool run_one(const struct check *c)
{
	double start = now();
	bool good, cleared;
	int status = 0;
	pid_t pid;

	memset(result, 0, sizeof(*result));
	if (mkdir(c->name, 0755)) {
		printf("@@ not ok %sa directory for %s can be made: %s\n", suite.prefix, c->name,
		       strerror(errno));
		return false;
	}
	pid = fork();
	if (pid == 0)
		run_here(c);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	kill(-pid, SIGKILL);
	good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	cleared = remove_tree(AT_FDCWD, c->name);
	if (good && !cleared)
		fail_at(__FILE__, __LINE__, "the check's directory is removed", errno);
	if (!good || !cleared)
		say_failed(c, status);
	else if (result->skip[0])
		printf("@@ skip %s%s: %s\n", suite.prefix, c->sentence, result->skip);
	else
		printf("@@ ok %s%s\n", suite.prefix, c->sentence);
	if (suite.verbose)
		printf("# %s: %.3f s\n", c->name, now() - start);
	fflush(stdout);
	return good && cleared;
}

static int run_all(void)
{
	unsigned bad = 0, apart = 0;

	for (size_t t = 0; t < ARRAY_LEN(tables); t++)
		for (const struct check *c = tables[t]; c->name; c++) {
			if ((suite.only && !named(suite.only, c->name)) ||
			    (suite.without && named(suite.without, c->name)))
				continue;
			if (!have(c->needs) || (suite.have & c->lacks)) {
				apart += !have(c->needs);
				continue;
			}
			bad += !run_one(c);
		}
	if (apart) {
		printf("@@ skip %s%u checks of the suite: they need what this place lacks:",
		       suite.prefix, apart);
		for (size_t i = 0; i < ARRAY_LEN(feature_names); i++)
			if (!have(1u << i))
				printf(" %s", feature_names[i]);
		printf("\n");
	}
	if (suite.without)
		printf("@@ skip %sthese checks: %s\n", suite.prefix, suite.without);
	return bad ? 1 : 0;
}

static void list(void)
{
	for (size_t t = 0; t < ARRAY_LEN(tables); t++)
		for (const struct check *c = tables[t]; c->name; c++)
			printf("%-24s %s\n", c->name, c->sentence);
}

static int usage(void)
{
	fprintf(stderr, "usage: fssuite [-n LACKS] [-c CHECKS] [-x CHECKS] [-m MANY] [-r ROUNDS] "
			"[-s SEC] [-p "
			"PREFIX] [-v] DIR\n"
			"       fssuite -l | -R DIR | -M FILE | -D FILE | -C FILE | -L FD "
			"[COMMAND...] | -P FD [COMMAND...]\n"
			"LACKS, with commas:");
	for (size_t i = 0; i < ARRAY_LEN(feature_names); i++)
		fprintf(stderr, " %s", feature_names[i]);
	fprintf(stderr, "\n");
	return 2;
}

/* Both are for the checks that start this program from the directory they test. */
static void started_by_check(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--exit-42"))
		_exit(42);
	if (argc == 2 && !strcmp(argv[1], "--pause"))
		for (;;)
			pause();
}

static int suite_run(const char *dir)
{
	char name[32];
	int status;

	snprintf(name, sizeof(name), "fssuite-%d", (int)getpid());
	if (chdir(dir) || mkdir(name, 0755) || chdir(name)) {
		printf("@@ not ok %sa directory for the checks can be made in %s: %s\n",
		       suite.prefix, dir, strerror(errno));
		return 1;
	}
	status = run_all();
	if (chdir("..") || (rmdir(name) && !status)) {
		printf("@@ not ok %snothing is left behind: %s\n", suite.prefix, strerror(errno));
		status = 1;
	}
	return status;
}

/* All of the file. The lock is its description's, but for servers that know it by who asked: hence the command. */
static int lock_and_run(int fd, bool by_fcntl, char **command)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	if (by_fcntl ? fcntl(fd, F_OFD_SETLK, &lock) : flock(fd, LOCK_EX | LOCK_NB))
		return 1;
	if (!*command)
		return 0;
	execvp(*command, command);
	return 1;
}

int main(int argc, char **argv)
{
	unsigned lacks = 0;
	int o;

	started_by_check(argc, argv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	while ((o = getopt(argc, argv, "+n:c:x:m:r:s:p:vlR:M:D:C:L:P:")) != -1)
		switch (o) {
		case 'n':
			if (!features_parse(optarg, &lacks))
				return usage();
			break;
		case 'c':
			suite.only = optarg;
			break;
		case 'x':
			suite.without = optarg;
			break;
		case 'm':
			suite.many = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 'r':
			suite.rounds = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 's':
			suite.seconds = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 'p':
			suite.prefix = optarg;
			break;
		case 'v':
			suite.verbose = true;
			break;
		case 'l':
			list();
			return 0;
		case 'R':
			return readonly_main(optarg);
		case 'M':
		case 'D':
			return hostmap_main(optarg, o == 'D');
		case 'C':
			return hostcut_main(optarg);
		case 'L':
		case 'P':
			return lock_and_run(atoi(optarg), o == 'P', argv + optind);
		default:
			return usage();
		}
	if (optind + 1 != argc)
		return usage();
	suite.have &= ~lacks;
	if (geteuid() != 0)
		suite.have &= ~(unsigned)(ROOT | USERS | CHOWN | DEVICES | TRUSTED | WHITEOUT);
	result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (result == MAP_FAILED)
		return 1;
	return suite_run(argv[optind]);
}
