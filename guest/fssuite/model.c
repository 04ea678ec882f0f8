// SPDX-License-Identifier: Apache-2.0
/*
 * model.c - random operations on one file, beside a model of it in memory: after each, what the file
 * holds is what the model holds.
 *
 * Everything that moves data or the end of the file takes part, through two openings and a mapping, so
 * that caches of every kind get in each other's way. The seed is fixed: a failure comes again, and says
 * which operation it was.
 */
#include "suite.h"
#include <linux/falloc.h>
#include <sys/mman.h>

enum { MAX = 200000, PIECE = 20000 };

struct model {
	uint8_t data[MAX];
	size_t size;
	int fd[2];
	char *map; /* of MAX bytes; NULL without shared mappings */
	uint64_t seed;
	char last[128]; /* the operation, for the message */
};

static unsigned pick(struct model *m, unsigned below)
{
	m->seed = m->seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(m->seed >> 33) % below;
}

static bool wrong(struct model *m)
{
	return fail_at(__FILE__, __LINE__, m->last, errno);
}

static void model_grow(struct model *m, size_t size)
{
	if (size > m->size)
		m->size = size;
}

static bool op_write(struct model *m, int fd)
{
	size_t at = pick(m, MAX - PIECE), n = 1 + pick(m, PIECE);

	snprintf(m->last, sizeof(m->last), "write %zu at %zu", n, at);
	fill(m->data + at, n, m->seed);
	model_grow(m, at + n);
	return pwrite(fd, m->data + at, n, (off_t)at) == (ssize_t)n;
}

static bool op_append(struct model *m, int fd)
{
	size_t n = 1 + pick(m, 3000);
	int appender = open("f", O_WRONLY | O_APPEND);
	bool good;

	(void)fd;
	if (m->size + n > MAX)
		n = MAX - m->size;
	snprintf(m->last, sizeof(m->last), "append %zu at %zu", n, m->size);
	fill(m->data + m->size, n, m->seed);
	good = appender >= 0 && write(appender, m->data + m->size, n) == (ssize_t)n;
	m->size += n;
	return good && close(appender) == 0;
}

static bool op_truncate(struct model *m, int fd)
{
	size_t size = pick(m, MAX);

	snprintf(m->last, sizeof(m->last), "truncate to %zu from %zu", size, m->size);
	if (size < m->size)
		memset(m->data + size, 0, m->size - size);
	m->size = size;
	return ftruncate(fd, (off_t)size) == 0;
}

static bool op_map_write(struct model *m, int fd)
{
	size_t at, n;

	if (!m->map || m->size < 2)
		return op_write(m, fd);
	at = pick(m, (unsigned)m->size - 1);
	n = 1 + pick(m, PIECE);
	if (at + n > m->size)
		n = m->size - at;
	snprintf(m->last, sizeof(m->last), "write %zu at %zu through the mapping", n, at);
	fill(m->data + at, n, m->seed);
	memcpy(m->map + at, m->data + at, n);
	return true;
}

static bool op_fallocate(struct model *m, int fd)
{
	static const struct {
		unsigned needs;
		int mode;
		const char *name;
	} modes[] = {{ALLOC, 0, "allocate"},
		     {PUNCH, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, "punch"},
		     {ZERO, FALLOC_FL_ZERO_RANGE, "zero"}};
	unsigned k = pick(m, ARRAY_LEN(modes));
	size_t at = pick(m, MAX - PIECE), n = 1 + pick(m, PIECE);

	if (!have(modes[k].needs))
		return op_write(m, fd);
	snprintf(m->last, sizeof(m->last), "%s %zu at %zu", modes[k].name, n, at);
	if (k)
		memset(m->data + at, 0, n);
	if (k != 1)
		model_grow(m, at + n);
	return fallocate(fd, modes[k].mode, (off_t)at, (off_t)n) == 0;
}

static bool op_copy(struct model *m, int fd)
{
	size_t n = 1 + pick(m, PIECE), at = pick(m, MAX / 2 - PIECE);
	off_t from = (off_t)at, to = MAX / 2 + from;

	if (!have(COPY) || m->size < at + n)
		return op_write(m, fd);
	snprintf(m->last, sizeof(m->last), "copy %zu from %zu to %lld", n, at, (long long)to);
	memcpy(m->data + to, m->data + at, n);
	model_grow(m, (size_t)to + n);
	while (n) {
		ssize_t r = copy_file_range(fd, &from, m->fd[0], &to, n, 0);

		if (r <= 0)
			return false;
		n -= (size_t)r;
	}
	return true;
}

static bool op_sync(struct model *m, int fd)
{
	snprintf(m->last, sizeof(m->last), "sync and drop");
	return fsync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0;
}

static bool op_reopen(struct model *m, int fd)
{
	int k = fd == m->fd[1];

	snprintf(m->last, sizeof(m->last), "close and open");
	if (close(fd))
		return false;
	m->fd[k] = open("f", O_RDWR);
	return m->fd[k] >= 0;
}

static bool op_direct(struct model *m, int fd)
{
	static _Alignas(4096) uint8_t buf[16384];
	size_t at = pick(m, (MAX - PIECE) / 4096) * 4096, n = (1 + pick(m, 4)) * 4096;
	int direct = have(DIRECT) ? open("f", O_RDWR | O_DIRECT) : -1;
	bool good;

	if (direct < 0)
		return op_write(m, fd);
	snprintf(m->last, sizeof(m->last), "direct write %zu at %zu", n, at);
	fill(buf, n, m->seed);
	memcpy(m->data + at, buf, n);
	model_grow(m, at + n);
	good = pwrite(direct, buf, n, (off_t)at) == (ssize_t)n;
	return close(direct) == 0 && good;
}

/* A piece of it by read or through the mapping, and the size. */
static bool agrees(struct model *m, int fd)
{
	static uint8_t buf[PIECE];
	size_t at = pick(m, MAX), n = 1 + pick(m, PIECE);
	size_t want = at >= m->size ? 0 : m->size - at < n ? m->size - at : n;
	struct stat st;

	if (fstat(fd, &st) || st.st_size != (off_t)m->size)
		return false;
	if (m->map && pick(m, 2))
		return memcmp(m->map + at, m->data + at, want) == 0;
	if (pread(fd, buf, n, (off_t)at) != (ssize_t)want)
		return false;
	return memcmp(buf, m->data + at, want) == 0;
}

static bool check_model(void)
{
	static bool (*const ops[])(struct model *, int) = {
		op_write,     op_write, op_append, op_truncate, op_map_write, op_map_write,
		op_fallocate, op_copy,  op_sync,   op_reopen,   op_direct,
	};
	static struct model m = {.seed = 20240607};
	static uint8_t all[MAX];

	must((m.fd[0] = open("f", O_CREAT | O_EXCL | O_RDWR, 0644)) >= 0);
	must((m.fd[1] = open("f", O_RDWR)) >= 0);
	if (have(MMAP)) {
		m.map = mmap(NULL, MAX, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd[0], 0);
		must(m.map != MAP_FAILED);
	}
	for (unsigned i = 0; i < suite_rounds(); i++) {
		int fd = m.fd[pick(&m, 2)];

		errno = 0;
		if (!ops[pick(&m, ARRAY_LEN(ops))](&m, fd) || !agrees(&m, m.fd[pick(&m, 2)]))
			return wrong(&m);
	}
	must(fsync(m.fd[0]) == 0 && posix_fadvise(m.fd[0], 0, 0, POSIX_FADV_DONTNEED) == 0);
	must(pread(m.fd[1], all, MAX, 0) == (ssize_t)m.size && memcmp(all, m.data, m.size) == 0);
	return true;
}

const struct check model_checks[] = {
	CHECK(model, "random operations of every kind leave what a model of the file says"),
	{0},
};
