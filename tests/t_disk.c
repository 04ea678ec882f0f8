// SPDX-License-Identifier: Apache-2.0
/*
 * t_disk.c - disk: what may be an image, its size and lock, the same again, operations on both engines.
 */
#include "disk_bed.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

/* Refused with this error, in one line that has the path and the remedy. */
static void refused(const char *path, bool readonly, int err, const char *remedy, const char *what)
{
	struct disk *d = NULL;
	char log[500];
	int next = dup(0);

	close(next);
	is(open_logged(&d, path, readonly, log), err, "%s is refused", what);
	ok(said(log, path) && said(log, remedy), "in one line with its path and what to do");
	is(direct_logged(&d, path, readonly, log), err, "and with direct");
	ok(said(log, path) && said(log, remedy), "in the same words");
	is(dup(0), next, "and nothing stays open");
	close(next);
}

static void test_refused(void)
{
	need(!mkfifo(in_bed("fifo"), 0600));
	refused(in_bed("missing"), false, -ENOENT, "check path_on_host",
		"a file that is not there");
	refused(bed_dir, false, -EISDIR, "share", "a directory");
	refused(bed_dir, true, -EISDIR, "raw image", "a directory to be read only");
	refused(in_bed("fifo"), true, -EINVAL, "raw image",
		"a fifo, without waiting for its writer,");
	refused("/dev/zero", true, -EINVAL, "raw image", "a character device");
	refused(bed_file("empty", 0), false, -EINVAL, "is empty: give it a size", "an empty file");
	refused(bed_file("tiny", 511), true, -EINVAL,
		"is smaller than a sector of 512 bytes: give it a size",
		"one of less than a sector");
}

static bool become_nobody(void)
{
	return getuid() || (!setgid(65534) && !setuid(65534));
}

static void test_no_right(void)
{
	const char *path = bed_file("locked", 4096), *secret = bed_file("secret", 4096);
	int status;

	need(!chmod(path, 0444) && !chmod(secret, 0) && !chmod(bed_dir, 0755));
	if (!fork()) {
		struct disk *d;
		char log[500];
		bool good = true;

		if (!become_nobody())
			_exit(2);
		good &= open_logged(&d, path, false, log) == -EACCES && said(log, "is_read_only");
		good &= open_logged(&d, path, true, log) == 0;
		good &= open_logged(&d, secret, true, log) == -EACCES &&
			said(log, "right to read it") && !strstr(log, "is_read_only");
		_exit(!good);
	}
	need(wait(&status) > 0);
	is(status, 0,
	   "without the right to write it is refused, but for reading only it is not, unless that "
	   "right is missing too");
}

/* Opens it with no more than n descriptors to come; the result. */
static int open_with(struct disk **d, const char *path, bool direct, unsigned n, char log[500])
{
	const struct disk_config cfg = {.path = path, .readonly = true, .direct = direct};
	struct rlimit old, few;
	struct capture cap;
	int next, r;

	capture_begin(&cap);
	next = dup(0);
	need(next >= 0 && !getrlimit(RLIMIT_NOFILE, &old));
	close(next);
	few = (struct rlimit){.rlim_cur = (rlim_t)next + n, .rlim_max = old.rlim_max};
	need(!setrlimit(RLIMIT_NOFILE, &few));
	r = disk_open(d, "blk0", &cfg);
	need(!setrlimit(RLIMIT_NOFILE, &old));
	capture_end(&cap, log, 500);
	return r;
}

static void test_no_descriptor(void)
{
	const char *path = bed_file("plain", 4096);
	struct disk *d;
	char log[500];

	is(open_with(&d, path, false, 0, log), -EMFILE, "without a descriptor it is refused");
	ok(said(log, "(raise ulimit -n): Too many open files\n"), "with the remedy for that");
	is(open_with(&d, path, true, 1, log), -EMFILE, "direct needs two");
	ok(said(log, "(raise ulimit -n): Too many open files\n"), "and says it too");
	is(open_with(&d, path, false, 1, log), 0, "one is enough for what is not");
	disk_put(d);
}

static void test_size(void)
{
	struct disk *d;
	char log[500];

	is(open_logged(&d, bed_file("even", 4096), false, log), 0,
	   "a file of whole sectors is taken");
	is(d->size, 4096, "with its size");
	ok(!log[0] && !d->is_blockdev && !d->readonly && !d->direct, "without a word");
	is(fcntl(d->file.fd, F_GETFL) & (O_ACCMODE | O_NONBLOCK | O_DIRECT), O_RDWR,
	   "it is open for writing, and blocking");
	is(fcntl(d->file.fd, F_GETFD), FD_CLOEXEC, "and closed in programs that are started");
	is(d->cached.fd, -1, "once");
	disk_put(d);
	is(open_logged(&d, bed_file("odd", 1000), true, log), 0, "a file of 1000 bytes is taken");
	is(d->size, 512, "but only its whole sector is shown");
	ok(said(log, "488 bytes") && said(log, "warning"), "which is said");
	is(fcntl(d->file.fd, F_GETFL) & O_ACCMODE, O_RDONLY, "for reading only it is opened so");
	is(disk_get(d) == d, 1, "a reference more is");
	disk_put(d);
	is(fcntl(d->file.fd, F_GETFD), FD_CLOEXEC, "one that has to be put");
	disk_put(d);
	disk_put(NULL);
}

/* ---- the lock ---- */

static void test_lock(void)
{
	const char *path = bed_file("image", 4096);
	struct disk *a, *b;
	char log[500];

	need(!open_logged(&a, path, false, log));
	is(open_logged(&b, path, false, log), -EBUSY,
	   "an image that is being written is not opened twice");
	ok(said(log, path) && said(log, "in use by another drive of this machine: leave one"),
	   "and the reason is given");
	is(open_logged(&b, path, true, log), -EBUSY, "not even to be read");
	is(direct_logged(&b, path, true, log), -EBUSY, "nor by O_DIRECT");
	disk_put(a);
	need(!open_logged(&a, path, true, log));
	is(open_logged(&b, path, true, log), 0, "two readers may share it");
	disk_put(b);
	is(open_logged(&b, path, false, log), -EBUSY, "but a writer has to wait for them");
	disk_put(a);
	is(direct_logged(&a, path, false, log), 0, "once it is closed it is free");
	is(open_logged(&b, path, false, log), -EBUSY, "and locked again by O_DIRECT");
	disk_put(a);
	is(open_logged(&b, path, false, log), 0, "until that is closed");
	disk_put(b);
}

/* A process of this name that has opened path, until end_holder(). */
static pid_t start_holder(const char *path, bool readonly, const char *comm)
{
	int ready[2];
	pid_t pid;
	char c;

	need(!pipe(ready));
	pid = fork();
	need(pid >= 0);
	if (!pid) {
		const struct disk_config cfg = {.path = path, .readonly = readonly};
		struct disk *d;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, comm);
		if (!disk_open(&d, "blk0", &cfg) && write(ready[1], "x", 1) == 1)
			for (;;)
				pause();
		_exit(1);
	}
	close(ready[1]);
	need(read(ready[0], &c, 1) == 1);
	close(ready[0]);
	return pid;
}

static void end_holder(pid_t pid)
{
	need(!kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid);
}

static void test_holder(void)
{
	const char *path = bed_file("held", 4096);
	char log[500], words[100];
	struct disk *d;
	pid_t pid = start_holder(path, false, "other-vmm");

	is(open_logged(&d, path, false, log), -EBUSY, "an image that another process has is busy");
	snprintf(words, sizeof(words),
		 "/held is in use by process %d (other-vmm): stop that one, or set is_read_only in "
		 "both\n",
		 (int)pid);
	ok(said(log, words), "and the process is named");
	is(open_logged(&d, path, true, log), -EBUSY, "to be read as well");
	ok(said(log, words), "by the same one");
	end_holder(pid);
	pid = start_holder(path, true, "a\nb\033[1m(x)");
	is(open_logged(&d, path, false, log), -EBUSY, "a reader holds off a writer");
	snprintf(words, sizeof(words), "process %d (", (int)pid);
	ok(said(log, words) && !strchr(log, '\033'),
	   "a name that would be more than a word is harmless");
	end_holder(pid);
	is(open_logged(&d, path, false, log), 0, "with the process the lock is gone");
	disk_put(d);
}

static void test_holder_unseen(void)
{
	const char *path = bed_file("unseen", 4096);
	int status;
	pid_t pid;

	if (getuid()) {
		skip("needs root", "a holder that may not be seen");
		return;
	}
	need(!chmod(path, 0666) && !chmod(bed_dir, 0755));
	pid = start_holder(path, false, "secret");
	if (!fork()) {
		struct disk *d;
		char log[500];
		bool good = become_nobody();

		good &= open_logged(&d, path, true, log) == -EBUSY;
		good &= said(log, "in use by another process or device: stop that one");
		_exit(!good);
	}
	need(wait(&status) > 0);
	is(status, 0, "who may not look into other processes is told that there is one");
	end_holder(pid);
}

/* ---- once more ---- */

/* Whether another process finds the lock taken. */
static bool is_locked(const char *path)
{
	int status;

	if (!fork()) {
		struct disk *d;
		char log[500];

		_exit(open_logged(&d, path, false, log) == -EBUSY ? 3 : 0);
	}
	need(wait(&status) > 0 && WIFEXITED(status));
	return WEXITSTATUS(status) == 3;
}

static void again_is(const struct disk *old, const char *path, uint64_t size, const char *what)
{
	struct disk *d;
	char log[500];

	is(again_logged(&d, old, path, log), 0, "%s", what);
	is(d->size, size, "and the size is the new one");
	ok(d != old && d->file.fd == old->file.fd && !log[0],
	   "in a disk of its own, on the same file, without a word");
	ok(d->readonly == old->readonly && d->direct == old->direct && d->block == old->block &&
		   d->mem_align == old->mem_align && d->is_blockdev == old->is_blockdev &&
		   !memcmp(&d->geometry, &old->geometry, sizeof(d->geometry)),
	   "that is otherwise the same");
	disk_put(d);
}

static void test_again(bool direct)
{
	const struct disk_config cfg = {bed_file("same", MIB(1)), .direct = direct};
	struct disk *d, *e;
	char log[500];
	int link = open(in_bed("same"), O_RDWR | O_CLOEXEC);

	need(link >= 0);
	need(!disk_open(&d, "blk0", &cfg));
	again_is(d, NULL, MIB(1), "an image that has not changed is there again");
	need(!ftruncate(link, (off_t)MIB(3)));
	again_is(d, NULL, MIB(3), "one that grew as well");
	need(!symlink("same", in_bed("symlink")));
	again_is(d, in_bed("same"), MIB(3), "and by its name");
	again_is(d, in_bed("symlink"), MIB(3), "or any other that leads there");
	need(!unlink(in_bed("symlink")) && !chmod(in_bed("same"), 0));
	again_is(d, in_bed("same"), MIB(3), "which it may not be opened by any more");
	need(!chmod(in_bed("same"), 0600) && !ftruncate(link, 5 * 512));
	again_is(d, NULL, 5 * 512, "and one that became shorter");
	need(!ftruncate(link, 6 * 512 + 1));
	is(again_logged(&e, d, NULL, log), 0, "of one that became odd");
	ok(e->size == 6 * 512 && said(log, "its file: the last 1 bytes"), "the tail is not shown");
	disk_put(d);
	again_is(e, NULL, 6 * 512, "which is said once");
	need(!ftruncate(link, 0));
	is(again_logged(&d, e, NULL, log), -EINVAL, "one that is empty is refused");
	ok(said(log, "is empty: give it a size") && e->size == 6 * 512, "the old one stays");
	disk_put(e);
	close(link);
}

static void test_again_other(void)
{
	const char *path = bed_file("first", 4096), *second = bed_file("second", 8192);
	struct disk *d, *e;
	char log[500];

	need(!open_logged(&d, path, false, log));
	is(again_logged(&e, d, in_bed("missing"), log), -ENOENT, "a file that is missing is not");
	ok(said(log, "check path_on_host"), "in the usual words");
	ok(is_locked(path) && d->size == 4096, "the old one stays, and its lock");
	is(again_logged(&e, d, second, log), 0, "another file takes its place");
	ok(e->size == 8192 && !e->readonly && !e->direct, "with its size, to be written as before");
	ok(is_locked(path) && is_locked(second), "both are locked");
	disk_put(d);
	ok(!is_locked(path) && is_locked(second), "until the old one is put");
	need(!unlink(second));
	second = bed_file("second", 512);
	is(again_logged(&d, e, second, log), 0, "a new file of the same name is another");
	is(d->size, 512, "with another size");
	disk_put(d);
	need(!open_logged(&d, path, false, log));
	is(again_logged(&d, e, path, log), -EBUSY, "one that is in use is refused");
	disk_put(e);
	disk_put(d);
	need(!open_logged(&d, path, true, log));
	need(!again_logged(&e, d, second, log));
	ok(e->readonly && (fcntl(e->file.fd, F_GETFL) & O_ACCMODE) == O_RDONLY,
	   "what is only read is read only elsewhere");
	disk_put(d);
	disk_put(e);
}

static void test_again_lock(void)
{
	const char *path = bed_file("shared", 4096);
	struct disk *d[4];
	char log[500];
	int fd;

	need(!open_logged(&d[0], path, false, log));
	for (unsigned i = 1; i < ARRAY_LEN(d); i++)
		need(!again_logged(&d[i], d[i - 1], i & 1 ? NULL : path, log));
	for (unsigned i = 0; i < ARRAY_LEN(d); i++) {
		ok(is_locked(path), "the lock is there while any of them is");
		disk_put(d[i]);
	}
	ok(!is_locked(path), "and gone with the last");
	need(!open_logged(&d[0], path, false, log));
	need(!again_logged(&d[1], d[0], NULL, log));
	disk_put(d[1]);
	ok(is_locked(path), "the new one may go first");
	disk_put(d[0]);
	ok(!is_locked(path), "then the old one");
	need(!open_logged(&d[0], path, false, log));
	fd = dup(d[0]->file.fd);
	disk_put(d[0]);
	ok(fd >= 0 && !is_locked(path), "also where a ring has not let go of the file yet");
	close(fd);
}

struct again {
	struct disk *old, *new;
	int res;
};

static void again_there(void *arg)
{
	struct again *a = arg;

	a->res = disk_again(&a->new, a->old, "blk0", NULL);
}

static void put_there(void *disk)
{
	disk_put(disk);
}

/* ---- block devices ---- */

static void test_blockdev(void)
{
	const char *file = bed_file("backing", 8192), *node = in_bed("node");
	struct bed_loop l;
	struct disk *d, *e;
	char log[500];

	if (!bed_loop(&l, file, 512)) {
		skip(strerror(errno), "a block device is an image");
		return;
	}
	is(open_logged(&d, l.path, false, log), 0, "a block device is an image");
	ok(d->is_blockdev && d->size == 8192, "of its own size");
	is(open_logged(&e, l.path, false, log), -EBUSY, "with a lock");
	need(!truncate(file, 16384) && !ioctl(l.fd, LOOP_SET_CAPACITY));
	again_is(d, NULL, 16384, "it may grow");
	again_is(d, l.path, 16384, "and be named");
	if (mknod(node, S_IFBLK | 0600, makedev(7, l.number)))
		skip(strerror(errno), "a block device by another node");
	else
		again_is(d, node, 16384, "also by another node");
	is(again_logged(&e, d, bed_file("afile", 512), log), 0, "a file may take its place");
	ok(!e->is_blockdev && e->size == 512, "which is one");
	disk_put(e);
	disk_put(d);
	bed_loop_end(&l);
}

/* ---- operations ---- */

static void test_io(struct bed *b)
{
	const char *path = bed_file("data", 16384), *name = b->engine;
	char out[4096], in[4096], log[500];
	struct bed_op o = {.kind = BED_WRITE,
			   .iov = {{out, 100}, {out + 100, 3000}, {out + 3100, 996}},
			   .niov = 3,
			   .off = 8192};
	struct disk *d;

	need(!open_logged(&d, path, false, log));
	pattern(out, sizeof(out), 1);
	o.disk = d;
	bed_run(b, &o, 1);
	is(o.res, 4096, "%s: a write in three pieces is whole", name);
	is(bed_flush(b, d), 0, "%s: a flush succeeds", name);
	memset(in, 0, sizeof(in));
	is(bed_rw(b, d, false, in, 4096, 8192), 4096, "%s: so is a read", name);
	ok(!memcmp(in, out, sizeof(in)), "%s: and has what was written", name);
	ok(file_is(path, out, 4096, 8192), "%s: so has the file", name);
	need(!truncate(path, 8192 + 1000));
	is(bed_rw(b, d, false, in, 4096, 8192), 1000, "%s: a file that shrank gives what is left",
	   name);
	disk_put(d);
	need(!open_logged(&d, path, true, log));
	is(bed_rw(b, d, true, out, 512, 0), -EBADF,
	   "%s: an image that is only read cannot be written", name);
	disk_put(d);
	ok(!b->bounce.buf, "%s: without direct nothing is bounced", name);
}

static void test_again_filtered(struct bed *b)
{
	struct again a = {0};
	char log[500];

	need(!open_logged(&a.old, bed_file("filtered", 512), false, log));
	need(!truncate(in_bed("filtered"), 4096));
	loop_call(b->io, again_there, &a);
	is(a.res, 0, "%s: the size is asked for again by calls that are allowed there", b->engine);
	is(a.new->size, 4096, "%s: and is the new one", b->engine);
	disk_put(a.old);
	loop_call(b->io, put_there, a.new);
	ok(!is_locked(in_bed("filtered")), "%s: and so is the lock given up", b->engine);
}

int main(void)
{
	static const enum loop_engine engines[] = {LOOP_URING, LOOP_EPOLL};
	struct bed b;

	need(!sandbox_init());
	bed_make(bed_base(0));
	test_refused();
	test_no_right();
	test_no_descriptor();
	test_size();
	test_lock();
	test_holder();
	test_holder_unseen();
	test_again(false);
	test_again(true);
	test_again_other();
	test_again_lock();
	test_blockdev();
	for (unsigned i = 0; i < ARRAY_LEN(engines); i++) {
		if (!bed_start(&b, engines[i]))
			continue;
		test_io(&b);
		test_again_filtered(&b);
		bed_stop(&b);
	}
	bed_end();
	return done();
}
