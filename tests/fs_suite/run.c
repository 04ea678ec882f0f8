// SPDX-License-Identifier: Apache-2.0
/*
 * run.c - the file system suite's tables, and who runs them.
 *
 * Each setup is a process of its own, with an alarm: what ends one, or hangs it, is a failure of that setup, and a plain
 * user's is really one. In it the share is entered once; every test has a directory of its own, and afterwards the other
 * side holds nothing but its root and no descriptor more than before. After a failure the share is entered anew. Calls:
 * door.h.
 */
#include "suite.h"
#include "../host_dir.h"
#include "../../vmm/sandbox.h"
#include <grp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define NOBODY     65534
#define PATIENCE_S 120 /* of one setup, under a sanitizer on a slow machine */

static const struct fs_test *const tables[] = {
	name_tests, attr_tests,   mode_tests,     open_tests,  link_tests,  rename_tests,
	dir_tests,  list_tests,   data_tests,     space_tests, xattr_tests, lock_tests,
	host_tests, budget_tests, readonly_tests, model_tests,
};

struct fs_bed bed;
const struct fs_door *fs;

/* How the test that runs is going to end. */
static struct {
	jmp_buf end;
	bool failed;
	char said[512];
} verdict;

_Noreturn void fail_at(const char *file, int line, const char *fmt, ...)
{
	const char *base = strrchr(file, '/');
	va_list ap;
	int n = snprintf(verdict.said, sizeof(verdict.said), "%s:%d: ", base ? base + 1 : file,
			 line);

	va_start(ap, fmt);
	vsnprintf(verdict.said + n, sizeof(verdict.said) - (size_t)n, fmt, ap);
	va_end(ap);
	verdict.failed = true;
	longjmp(verdict.end, 1);
}

_Noreturn void skip_test(const char *why)
{
	snprintf(verdict.said, sizeof(verdict.said), "%s", why);
	verdict.failed = false;
	longjmp(verdict.end, 1);
}

/* How things stood before it. */
static struct {
	unsigned descriptors, faults;
} around;

/* ---- one test ---- */

enum result { PASSED, FAILED, SKIPPED };

static unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	need(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static unsigned faults(void)
{
	return fs->faults ? fs->faults() : 0;
}

/* Nothing here changes what setjmp() would lose. */
static enum result run_guarded(void (*run)(void))
{
	if (setjmp(verdict.end))
		return verdict.failed ? FAILED : SKIPPED;
	run();
	return PASSED;
}

static void bed_make(void)
{
	struct fs_obj *root = fs->root();
	int share;

	host(share = openat(bed.beside, "share", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	host(mkdirat(share, "t", 0755));
	host(bed.host = openat(share, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	close(share);
	bed.dir = find(root, "t");
	fs->forget(root);
}

static void bed_leave(void)
{
	fs->forget(bed.dir);
	close_fd(&bed.host);
}

/* What this test made beside the share, and in it. */
static void beside_clear(void)
{
	int share = openat(bed.beside, "share", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	static const char *const others[] = {"outside", "plain"};

	need(share >= 0);
	host_clear(share);
	close(share);
	for (unsigned i = 0; i < ARRAY_LEN(others); i++) {
		int fd = openat(bed.beside, others[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		need(fd >= 0);
		host_clear(fd);
		close(fd);
	}
}

static void check_left(void)
{
	struct fs_held h = fs->held();

	want(h.objects, 0);
	want(h.files, 0);
}

static void mount_again(void)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/proc/self/fd/%d/share", bed.beside);
	need(!fs->mount(bed.setup, path));
}

static void check_around(void)
{
	want(descriptors(), around.descriptors);
	if (faults() != around.faults)
		fail_at(__FILE__, __LINE__, "the door was told what it should not be");
}

static enum result run_between(const struct fs_test *t)
{
	enum result r = run_guarded(bed_make);

	if (r == PASSED)
		r = run_guarded(t->run);
	if (r != PASSED)
		return r;
	bed_leave();
	return run_guarded(check_left);
}

static enum result run_test(const struct fs_test *t)
{
	enum result r;

	around.descriptors = descriptors();
	around.faults = faults();
	r = run_between(t);
	if (r == PASSED)
		r = run_guarded(check_around);
	/* Whatever the test still had is dropped with the share. */
	if (r != PASSED) {
		close_fd(&bed.host);
		fs->unmount();
		mount_again();
	}
	beside_clear();
	return r;
}

/* ---- one setup ---- */

static unsigned kinds_of(const struct share_config *cfg)
{
	if (cfg->readonly)
		return RO;
	if (!cfg->xattr)
		return NO_XATTR;
	return RW | (cfg->posix_acl ? ACL : NO_ACL) | (cfg->locks == SHARE_LOCKS_HOST ? LOCKS : 0);
}

static void say(const struct fs_test *t, enum result r)
{
	const char *door = fs->name, *setup = bed.setup->name;

	if (r == SKIPPED)
		skip(verdict.said, "%s, %s: %s", door, setup, t->sentence);
	else
		ok(r == PASSED, "%s, %s: %s", door, setup, t->sentence);
	if (r == FAILED)
		printf("#   %s\n", verdict.said);
}

static const struct fs_lack *lack_of(unsigned what)
{
	for (const struct fs_lack *l = fs->lacks; l && l->name; l++)
		if (l->what & what)
			return l;
	return NULL;
}

bool lacks(unsigned what)
{
	return lack_of(what);
}

static bool door_lacks(const struct fs_test *t)
{
	const struct fs_lack *l = lack_of(t->needs);

	if (!l)
		return false;
	snprintf(verdict.said, sizeof(verdict.said), "the door has no %s: %s", l->name, l->why);
	return true;
}

/* $SUITE_ONLY is part of a sentence, to look at one. */
static bool is_for(const struct fs_test *t, unsigned kinds)
{
	const char *only = getenv("SUITE_ONLY");

	return (t->kinds ? t->kinds : RW) & kinds && (!only || strstr(t->sentence, only));
}

static void run_tables(void)
{
	const unsigned kinds = kinds_of(&bed.setup->share);

	for (unsigned i = 0; i < ARRAY_LEN(tables); i++)
		for (const struct fs_test *t = tables[i]; t->run; t++)
			if (is_for(t, kinds))
				say(t, door_lacks(t) ? SKIPPED : run_test(t));
}

static const char *base_dir(const struct fs_setup *s)
{
	const char *tmp = getenv("TMPDIR");

	return s->tmpfs || SANITIZED ? "/dev/shm" : tmp ? tmp : "/tmp";
}

static void learn(const struct fs_setup *s)
{
	const int owner = s->share.owner;

	bed.setup = s;
	bed.host = -1;
	bed.root = geteuid() == 0;
	bed.mapped = owner == SHARE_OWNER_MAPPED;
	bed.passes = owner == SHARE_OWNER_PASSTHROUGH ||
		     (owner == SHARE_OWNER_AUTO && share_owner_passes());
	bed.squash = !bed.mapped && !bed.passes;
	bed.tight = s->share.fd_budget && s->share.fd_budget < 32;
}

/* False, and said, where nothing can be made. */
static bool place_make(char top[PATH_MAX])
{
	char base[PATH_MAX];

	/* Whole, as a thread that uses a share works in another directory. */
	if (!realpath(base_dir(bed.setup), base))
		snprintf(base, sizeof(base), "%s", base_dir(bed.setup));
	snprintf(top, PATH_MAX, "%.4000s/suite.XXXXXX", base);
	if (!mkdtemp(top)) {
		skip("no directory can be made there", "%s, %s: %s", fs->name, bed.setup->name,
		     top);
		return false;
	}
	bed.beside = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	need(bed.beside >= 0);
	need(!mkdirat(bed.beside, "share", 0755) && !mkdirat(bed.beside, "plain", 0755) &&
	     !mkdirat(bed.beside, "outside", 0755));
	return true;
}

static void run_setup(void)
{
	char top[PATH_MAX], share[PATH_MAX + 8];
	const unsigned before = descriptors();
	int err;

	if (!place_make(top))
		return;
	snprintf(share, sizeof(share), "%s/share", top);
	err = fs->mount(bed.setup, share);
	if (err) {
		skip(strerror(-err), "%s, %s: all of it", fs->name, bed.setup->name);
	} else {
		run_tables();
		fs->unmount();
	}
	host_clear(bed.beside);
	close(bed.beside);
	need(!rmdir(top));
	if (!tap_failed) /* a test that failed leaves what it had */
		is(descriptors(), before, "%s, %s: no descriptor is left", fs->name,
		   bed.setup->name);
}

/* ---- all of them ---- */

static void become(const struct fs_setup *s)
{
	struct rlimit limit;

	alarm(PATIENCE_S);
	umask(0);
	need(!getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = limit.rlim_max;
	need(!setrlimit(RLIMIT_NOFILE, &limit));
	if (s->engine)
		need(!setenv("WHERRY_ENGINE", s->engine, 1));
	if (s->nobody && !geteuid())
		need(!setgroups(0, NULL) && !setresgid(NOBODY, NOBODY, NOBODY) &&
		     !setresuid(NOBODY, NOBODY, NOBODY));
}

/* Its results are counted here. */
static void run_child(const struct fs_setup *s, int pipe_fd)
{
	int counts[2];

	become(s);
	need(!sandbox_init());
	learn(s);
	run_setup();
	counts[0] = tap_n;
	counts[1] = tap_failed;
	fflush(stdout);
	exit(write(pipe_fd, counts, sizeof(counts)) != sizeof(counts));
}

static void run_apart(const struct fs_setup *s)
{
	int pipe_fd[2], counts[2], status;
	pid_t pid;

	/* A plain user is one already. */
	if (geteuid() && !s->nobody) {
		skip("needs root", "%s, %s: all of it", fs->name, s->name);
		return;
	}
	need(!pipe2(pipe_fd, O_CLOEXEC));
	fflush(stdout);
	pid = fork();
	need(pid >= 0);
	if (!pid)
		run_child(s, pipe_fd[1]);
	close(pipe_fd[1]);
	need(waitpid(pid, &status, 0) == pid);
	if (read(pipe_fd[0], counts, sizeof(counts)) == sizeof(counts)) {
		tap_n = counts[0];
		tap_failed = counts[1];
	}
	close(pipe_fd[0]);
	if (status)
		ok(0, "%s, %s: it came to its end (status %#x)", fs->name, s->name,
		   (unsigned)status);
}

int fs_suite(const struct fs_door *door, const struct fs_setup *setups, size_t n)
{
	const char *only = getenv("SUITE_SETUP");

	fs = door;
	for (const struct fs_lack *l = door->lacks; l && l->name; l++)
		printf("# %s has no %s: %s\n", door->name, l->name, l->why);
	for (size_t i = 0; i < n; i++)
		if (!only || strstr(setups[i].name, only))
			run_apart(&setups[i]);
	return done();
}
