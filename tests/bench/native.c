// SPDX-License-Identifier: Apache-2.0
/*
 * native.c - the limit: the payload's operations as plain system calls of one thread on the host.
 *
 *   native PATH OP BS QD MS     prints the payload's RESULT line, as far as bench.sh reads it
 *
 * PATH is a file. OP is read, randread, write, randwrite (QD > 1 through io_uring), getattr, or lookup.
 */
#include "../../guest/payload/pattern.h"
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
#define WARM_NS 100000000ull

static struct {
	const char *path, *op;
	uint32_t bs, qd;
	uint64_t ns, blocks;
	int fd;
	bool write;
	uint8_t *buf;
} job;

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

static bool one(uint64_t i)
{
	struct stat st;
	uint64_t off;

	if (!strcmp(job.op, "getattr"))
		return !fstat(job.fd, &st);
	if (!strcmp(job.op, "lookup"))
		return !stat(job.path, &st);
	off = offset(i);
	if (!job.write)
		return pread(job.fd, job.buf, job.bs, (off_t)off) == (ssize_t)job.bs;
	pattern_fill(job.buf, job.bs, 0, off);
	return pwrite(job.fd, job.buf, job.bs, (off_t)off) == (ssize_t)job.bs;
}

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
	if (c->warm || now - c->begun < WARM_NS)
		return c->warm && now - c->begun >= job.ns;
	*c = (struct count){.begun = now, .warm = true, .errors = c->errors};
	return false;
}

static void run_plain(struct count *c)
{
	for (uint64_t i = 0; !count_one(c, one(i)); i++)
		;
}

static void submit(struct io_uring *ring, uint64_t slot, uint64_t i)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	uint8_t *p = job.buf + slot * job.bs;
	uint64_t off = offset(i);

	if (job.write) {
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

	if (io_uring_queue_init(QD_MAX, &ring, 0))
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

int main(int argc, char **argv)
{
	struct count c = {.begun = now_ns()};
	struct stat st;

	if (argc != 6)
		errx(2, "usage: native PATH OP BS QD MS");
	job.path = argv[1];
	job.op = argv[2];
	job.bs = (uint32_t)atoi(argv[3]);
	job.qd = (uint32_t)atoi(argv[4]);
	job.ns = strtoull(argv[5], NULL, 10) * 1000000;
	job.write = strstr(job.op, "write");
	job.fd = open(job.path, O_RDWR);
	if (job.fd < 0 || fstat(job.fd, &st))
		err(1, "%s", job.path);
	if (!job.bs || job.qd < 1 || job.qd > QD_MAX || (uint64_t)st.st_size < job.bs)
		errx(2, "BS or QD out of range");
	job.blocks = (uint64_t)st.st_size / job.bs;
	job.buf = mmap(NULL, (size_t)job.qd * job.bs, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (job.buf == MAP_FAILED)
		err(1, "memory");
	if (job.qd > 1 && (strstr(job.op, "read") || job.write))
		run_uring(&c);
	else
		run_plain(&c);
	printf("RESULT dev=host op=%s bs=%u qd=%u n=%llu iops=%.0f kicks=0 all=%llu err=%llu\n",
	       job.op, job.bs, job.qd, (unsigned long long)c.done,
	       (double)c.done * 1e9 / (double)(now_ns() - c.begun), (unsigned long long)c.done,
	       (unsigned long long)c.errors);
	return 0;
}
