// SPDX-License-Identifier: Apache-2.0
/*
 * native.c - the limit: the payload's operations as plain system calls of one thread on the host.
 *
 *   native PATH OP BS QD MS [direct]     prints the payload's RESULT line, as far as bench.sh reads it
 *
 * PATH is a file for read, randread, write, randwrite, randrw (QD > 1 through io_uring), getattr and lookup; a directory
 * with the payload's small files for stat, openread, create, unlink, readdir and readdirplus (an operation is an entry).
 * direct: the file with O_DIRECT.
 */
#include "../../guest/payload/pattern.h"
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define QD_MAX  64
#define PAGE    4096u /* what slots' data begins on */
#define WARM_NS 100000000ull
#define FILES   1000u /* small ones, f0000.. and n0000.. */

static struct {
	const char *path, *op;
	uint32_t bs, qd;
	uint64_t ns, blocks;
	int fd, flags;
	uint32_t writes; /* of 100 */
	bool once;       /* FILES operations, no warm-up */
	DIR *dir;
	uint8_t *buf;
} job;

#define SLOT_BYTES ((job.bs + PAGE - 1) / PAGE * (size_t)PAGE)

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static uint32_t random_u32(void)
{
	static uint64_t x = 0x9e3779b97f4a7c15;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (uint32_t)(x >> 32);
}

static uint64_t offset(uint64_t i)
{
	uint64_t block = strncmp(job.op, "rand", 4) ? i % job.blocks
						    : ((uint64_t)random_u32() * job.blocks) >> 32;

	return block * job.bs;
}

/* ---- operations: each does number i, and says whether that was right ---- */

static bool writes(void)
{
	return job.writes == 100 || (job.writes && random_u32() % 100 < job.writes);
}

static bool do_data(uint64_t i)
{
	uint64_t off = offset(i);

	if (!writes())
		return pread(job.fd, job.buf, job.bs, (off_t)off) == (ssize_t)job.bs;
	pattern_fill(job.buf, job.bs, 0, off);
	return pwrite(job.fd, job.buf, job.bs, (off_t)off) == (ssize_t)job.bs;
}

static bool do_getattr(uint64_t i)
{
	struct stat st;

	(void)i;
	return !fstat(job.fd, &st);
}

static bool do_lookup(uint64_t i)
{
	struct stat st;

	(void)i;
	return !stat(job.path, &st);
}

static const char *small(char letter, uint64_t i)
{
	static char name[16];

	snprintf(name, sizeof(name), "%c%04u", letter, (unsigned)(i % FILES));
	return name;
}

static bool do_stat(uint64_t i)
{
	struct stat st;

	return !fstatat(job.fd, small('f', i * 7919), &st, AT_SYMLINK_NOFOLLOW);
}

static bool do_openread(uint64_t i)
{
	int fd = openat(job.fd, small('f', i * 7919), O_RDONLY);
	bool good = fd >= 0 && read(fd, job.buf, job.bs) == (ssize_t)job.bs;

	return close(fd) == 0 && good;
}

static bool do_create(uint64_t i)
{
	int fd = openat(job.fd, small('n', i), O_WRONLY | O_CREAT | O_TRUNC, 0644);
	bool good = fd >= 0 && write(fd, job.buf, job.bs) == (ssize_t)job.bs;

	return close(fd) == 0 && good;
}

static bool do_unlink(uint64_t i)
{
	return !unlinkat(job.fd, small('n', i), 0);
}

static bool do_readdir(uint64_t i)
{
	(void)i;
	if (readdir(job.dir))
		return true;
	rewinddir(job.dir);
	return readdir(job.dir);
}

static bool do_readdirplus(uint64_t i)
{
	struct dirent *e = readdir(job.dir);
	struct stat st;

	(void)i;
	if (!e) {
		rewinddir(job.dir);
		e = readdir(job.dir);
	}
	return e && !fstatat(job.fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW);
}

static const struct {
	const char *op;
	bool (*one)(uint64_t i);
	bool dir;
	uint32_t writes;
} operations[] = {
	{"read", do_data, false, 0},
	{"randread", do_data, false, 0},
	{"write", do_data, false, 100},
	{"randwrite", do_data, false, 100},
	{"randrw", do_data, false, 25},
	{"getattr", do_getattr, false, 0},
	{"lookup", do_lookup, false, 0},
	{"stat", do_stat, true, 0},
	{"openread", do_openread, true, 0},
	{"create", do_create, true, 0},
	{"unlink", do_unlink, true, 0},
	{"readdir", do_readdir, true, 0},
	{"readdirplus", do_readdirplus, true, 0},
};
#define OPERATIONS (sizeof(operations) / sizeof(operations[0]))

/* ---- running them ---- */

struct count {
	uint64_t begun, done, errors;
	bool warm;
};

/* True when the time is over. */
static bool count_one(struct count *c, bool good)
{
	uint64_t now = now_ns();

	c->errors += !good;
	c->done++;
	if (job.once)
		return c->done == FILES;
	if (c->warm || now - c->begun < WARM_NS)
		return c->warm && now - c->begun >= job.ns;
	*c = (struct count){.begun = now, .warm = true, .errors = c->errors};
	return false;
}

static void run_plain(struct count *c, bool (*one)(uint64_t))
{
	for (uint64_t i = 0; !count_one(c, one(i)); i++)
		;
}

static void submit(struct io_uring *ring, uint64_t slot, uint64_t i)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	uint8_t *p = job.buf + slot * SLOT_BYTES;
	uint64_t off = offset(i);

	if (writes()) {
		pattern_fill(p, job.bs, 0, off);
		io_uring_prep_write(sqe, job.fd, p, job.bs, off);
	} else {
		io_uring_prep_read(sqe, job.fd, p, job.bs, off);
	}
	io_uring_sqe_set_data64(sqe, slot);
}

static void run_uring(struct count *c)
{
	struct io_uring ring;
	struct io_uring_cqe *cqe;
	uint64_t i = 0;
	bool over = false;

	/* Completions deferred to the call that waits, where the kernel has that (6.1). */
	if (io_uring_queue_init(QD_MAX, &ring,
				IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN) &&
	    io_uring_queue_init(QD_MAX, &ring, 0))
		errx(1, "io_uring is refused");
	for (; i < job.qd; i++)
		submit(&ring, i, i);
	while (!over) {
		unsigned head, n = 0;

		io_uring_submit_and_wait(&ring, 1);
		io_uring_for_each_cqe(&ring, head, cqe)
		{
			over |= count_one(c, cqe->res == (int)job.bs);
			submit(&ring, cqe->user_data, i++);
			n++;
		}
		io_uring_cq_advance(&ring, n);
	}
}

static void open_file(void)
{
	struct stat st;

	job.fd = open(job.path, O_RDWR | job.flags);
	if (job.fd < 0 || fstat(job.fd, &st))
		err(1, "%s", job.path);
	if (job.qd < 1 || job.qd > QD_MAX || (uint64_t)st.st_size < job.bs)
		errx(2, "BS or QD out of range");
	job.blocks = job.bs ? (uint64_t)st.st_size / job.bs : 0;
}

static void open_dir(void)
{
	job.fd = open(job.path, O_RDONLY | O_DIRECTORY);
	job.dir = opendir(job.path);
	if (job.fd < 0 || !job.dir)
		err(1, "%s", job.path);
}

int main(int argc, char **argv)
{
	struct count c = {0};
	size_t o = 0;

	if (argc != 6 && (argc != 7 || strcmp(argv[6], "direct")))
		errx(2, "usage: native PATH OP BS QD MS [direct]");
	job.path = argv[1];
	job.op = argv[2];
	job.bs = (uint32_t)atoi(argv[3]);
	job.qd = (uint32_t)atoi(argv[4]);
	job.ns = strtoull(argv[5], NULL, 10) * 1000000;
	while (o < OPERATIONS && strcmp(job.op, operations[o].op))
		o++;
	if (o == OPERATIONS)
		errx(2, "%s: unknown", job.op);
	job.flags = argc == 7 ? O_DIRECT : 0;
	job.writes = operations[o].writes;
	job.once = operations[o].one == do_create || operations[o].one == do_unlink;
	operations[o].dir ? open_dir() : open_file();
	job.buf = mmap(NULL, (size_t)job.qd * SLOT_BYTES + 1, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (job.buf == MAP_FAILED)
		err(1, "memory");
	c.begun = now_ns();
	if (job.qd > 1 && operations[o].one == do_data)
		run_uring(&c);
	else
		run_plain(&c, operations[o].one);
	printf("RESULT dev=host op=%s bs=%u qd=%u n=%llu iops=%.0f kicks=0 all=%llu err=%llu\n",
	       job.op, job.bs, job.qd, (unsigned long long)c.done,
	       (double)c.done * 1e9 / (double)(now_ns() - c.begun), (unsigned long long)c.done,
	       (unsigned long long)c.errors);
	return 0;
}
