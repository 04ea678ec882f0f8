// SPDX-License-Identifier: Apache-2.0
/*
 * count_share.c - a share driven through a real ring, in-process, for tests/bench/count.sh to count what each request costs.
 *
 *   count_share DIRECTORY      (empty; what it makes there stays)
 *
 * Every reply is checked. Calls: count.h.
 */
#include "count.h"
#include "../../devices/virtio_fs.h"
#include <fcntl.h>
#include <sys/stat.h>

#define BATCH     COUNT_BATCH
#define FILES     BATCH
#define ENTRIES   1000u /* of the directory that is read */
#define PAGE      4096u
#define FILE_LEN  MIB(1)
#define BODY_MAX  256u
#define REPLY_MAX (sizeof(struct fuse_entry_out) + sizeof(struct fuse_open_out))

static uint64_t unique;

/* A request and where its answer is to be kept. */
struct request {
	uint32_t op, body_len, out_len, data_out, data_in;
	uint64_t node;
	uint8_t body[BODY_MAX];
	/* The reply. */
	uint8_t reply[REPLY_MAX];
	uint64_t unique, head_gpa, reply_gpa, data_gpa;
};
static struct request requests[BATCH];
static uint64_t node[FILES], fh[FILES];

static uint16_t post(struct request *r)
{
	static const uint8_t data[PAGE];
	struct fuse_in_header h = {.len = (uint32_t)sizeof(h) + r->body_len + r->data_out,
				   .opcode = r->op,
				   .unique = r->unique = unique += 2,
				   .nodeid = r->node};
	struct fg_buf rd[] = {{&h, sizeof(h)}, {r->body, r->body_len}, {data, r->data_out}};
	struct fg_buf wr[3] = {{NULL, sizeof(struct fuse_out_header)}};
	unsigned nwr = 1;
	uint64_t gpa[3];
	uint16_t head;

	if (r->out_len)
		wr[nwr++] = (struct fg_buf){NULL, r->out_len};
	if (r->data_in)
		wr[nwr++] = (struct fg_buf){NULL, r->data_in};
	head = fg_add(&fg->q[1], rd, r->data_out ? 3 : r->body_len ? 2 : 1, wr, nwr, gpa);
	r->head_gpa = gpa[0];
	r->reply_gpa = gpa[1];
	r->data_gpa = gpa[nwr - 1];
	return head;
}

static struct request *by_unique(uint64_t u)
{
	for (unsigned i = 0; i < BATCH; i++)
		if (requests[i].unique == u)
			return &requests[i];
	return NULL;
}

/* n requests at once, to their end. Bytes of data that came in all. */
static uint32_t serve(unsigned n)
{
	uint64_t gpa[VIRTQ_MAX_SIZE];
	uint32_t len, got = 0;

	for (unsigned i = 0; i < n; i++) {
		uint16_t head = post(&requests[i]);

		gpa[head] = requests[i].head_gpa;
	}
	for (unsigned i = 0; i < n; i++) {
		int head = fg_used(&fg->q[1], &len);
		struct fuse_out_header *o = fg_ptr(fg, gpa[head], sizeof(*o));
		struct request *r = by_unique(o->unique);

		need(!o->error && o->len == len && r);
		if (r->out_len)
			memcpy(r->reply, fg_ptr(fg, r->reply_gpa, r->out_len), r->out_len);
		got += len - (uint32_t)sizeof(*o) - r->out_len;
	}
	return got;
}

#define BODY(i, type, ...)                                              \
	(*(struct type *)requests[i].body = (struct type){__VA_ARGS__}, \
	 requests[i].body_len = (uint32_t)sizeof(struct type))

static void put_name(unsigned i, const char *name)
{
	memcpy(requests[i].body + requests[i].body_len, name, strlen(name) + 1);
	requests[i].body_len += (uint32_t)strlen(name) + 1;
}

static const char *file_name(char letter, unsigned i)
{
	static char name[8];

	snprintf(name, sizeof(name), "%c%04u", letter, i);
	return name;
}

/* ---- one kind of request, BATCH of them: prepare number i of round k ---- */

static void prepare_lookup(unsigned i, unsigned k)
{
	(void)k;
	requests[i] = (struct request){
		.op = FUSE_LOOKUP, .node = FUSE_ROOT_ID, .out_len = sizeof(struct fuse_entry_out)};
	put_name(i, file_name('f', i));
}

static void prepare_getattr(unsigned i, unsigned k)
{
	(void)k;
	requests[i] = (struct request){
		.op = FUSE_GETATTR, .node = node[i], .out_len = sizeof(struct fuse_attr_out)};
	BODY(i, fuse_getattr_in, 0);
}

static void prepare_open(unsigned i, unsigned k)
{
	(void)k;
	requests[i] = (struct request){
		.op = FUSE_OPEN, .node = node[i], .out_len = sizeof(struct fuse_open_out)};
	BODY(i, fuse_open_in, .flags = O_RDWR);
}

static void prepare_read(unsigned i, unsigned k)
{
	requests[i] = (struct request){.op = FUSE_READ, .node = node[i], .data_in = PAGE};
	BODY(i, fuse_read_in, .fh = fh[i], .offset = k * 7 % 256 * PAGE, .size = PAGE);
}

static void prepare_write(unsigned i, unsigned k)
{
	requests[i] = (struct request){.op = FUSE_WRITE,
				       .node = node[i],
				       .data_out = PAGE,
				       .out_len = sizeof(struct fuse_write_out)};
	BODY(i, fuse_write_in, .fh = fh[i], .offset = k * 7 % 256 * PAGE, .size = PAGE);
}

static void prepare_release(unsigned i, unsigned k)
{
	(void)k;
	requests[i] = (struct request){.op = FUSE_RELEASE, .node = node[i]};
	BODY(i, fuse_release_in, .fh = fh[i]);
}

static void prepare_create(unsigned i, unsigned k)
{
	requests[i] =
		(struct request){.op = FUSE_CREATE, .node = FUSE_ROOT_ID, .out_len = REPLY_MAX};
	BODY(i, fuse_create_in, .flags = O_RDWR | O_CREAT, .mode = S_IFREG | 0644);
	put_name(i, file_name('n', k * BATCH + i));
}

static void prepare_unlink(unsigned i, unsigned k)
{
	requests[i] = (struct request){.op = FUSE_UNLINK, .node = FUSE_ROOT_ID};
	put_name(i, file_name('n', k * BATCH + i));
}

static void keep_node(unsigned i)
{
	node[i] = ((const struct fuse_entry_out *)requests[i].reply)->nodeid;
}

static void keep_handle(unsigned i)
{
	fh[i] = ((const struct fuse_open_out *)requests[i].reply)->fh;
}

static void keep_both(unsigned i)
{
	const struct fuse_entry_out *e = (const void *)requests[i].reply;

	node[i] = e->nodeid;
	fh[i] = ((const struct fuse_open_out *)(e + 1))->fh;
}

static void round_of(void (*prepare)(unsigned, unsigned), void (*keep)(unsigned), unsigned k)
{
	for (unsigned i = 0; i < BATCH; i++)
		prepare(i, k);
	serve(BATCH);
	for (unsigned i = 0; i < BATCH && keep; i++)
		keep(i);
}

/* The first rounds fill what is cached. */
static void count(const char *name, void (*prepare)(unsigned, unsigned), void (*keep)(unsigned))
{
	for (unsigned k = 0; k < COUNT_WARM; k++)
		round_of(prepare, keep, k);
	count_begin();
	for (unsigned k = 0; k < COUNT_ROUNDS; k++)
		round_of(prepare, keep, k);
	count_end(name, COUNT_ROUNDS * BATCH);
}

/* What is made is opened, written, closed and removed: each step of one batch after the other. */
static void count_chain(const char *name, void (*first)(unsigned, unsigned), void (*keep)(unsigned),
			void (*second)(unsigned, unsigned), void (*third)(unsigned, unsigned))
{
	for (unsigned k = 0; k < COUNT_WARM + COUNT_ROUNDS; k++) {
		if (k == COUNT_WARM)
			count_begin();
		round_of(first, keep, k);
		round_of(second, NULL, k);
		round_of(third, NULL, k);
	}
	count_end(name, COUNT_ROUNDS * BATCH);
}

static void count_unlink(void)
{
	count_begin();
	for (unsigned k = 0; k < COUNT_WARM + COUNT_ROUNDS; k++)
		round_of(prepare_unlink, NULL, k);
	count_end("unlink", (COUNT_WARM + COUNT_ROUNDS) * BATCH);
}

/* ---- directories: one request at a time, a slot's reply is as long as it is ---- */

static void forget_batch(const struct fuse_forget_one *ones, uint32_t n)
{
	struct fuse_batch_forget_in in = {.count = n};
	struct fuse_in_header h = {.len = (uint32_t)(sizeof(h) + sizeof(in) + n * sizeof(*ones)),
				   .opcode = FUSE_BATCH_FORGET,
				   .unique = unique += 2};
	struct fg_buf rd[] = {
		{&h, sizeof(h)}, {&in, sizeof(in)}, {ones, n * (uint32_t)sizeof(*ones)}};
	uint32_t len;

	fg_add(&fg->q[0], rd, 3, NULL, 0, NULL);
	fg_used(&fg->q[0], &len);
}

static uint32_t read_piece(uint64_t dir, uint64_t dir_fh, uint32_t op, uint64_t off)
{
	requests[0] = (struct request){.op = op, .node = dir, .data_in = 8 * PAGE};
	BODY(0, fuse_read_in, .fh = dir_fh, .offset = off, .size = 8 * PAGE);
	return serve(1);
}

/* A whole directory; ones gets what the guest knows afterwards. Entries. */
static unsigned read_all(uint64_t dir, uint64_t dir_fh, uint32_t op, struct fuse_forget_one *ones)
{
	uint64_t off = 0;
	unsigned n = 0;
	uint32_t len;

	while ((len = read_piece(dir, dir_fh, op, off)) > 0) {
		const uint8_t *p = fg_ptr(fg, requests[0].data_gpa, len);

		for (const uint8_t *end = p + len; p < end; n++) {
			const struct fuse_direntplus *plus = (const void *)p;
			const struct fuse_dirent *e =
				op == FUSE_READDIRPLUS ? &plus->dirent : (const void *)p;

			off = e->off;
			if (op == FUSE_READDIRPLUS)
				ones[n] = (struct fuse_forget_one){plus->entry_out.nodeid, 1};
			p += op == FUSE_READDIRPLUS ? FUSE_DIRENTPLUS_SIZE(plus)
						    : FUSE_DIRENT_SIZE(e);
		}
	}
	return n;
}

static void count_dir(const char *name, uint64_t dir, uint32_t op)
{
	static struct fuse_forget_one ones[ENTRIES + 16];
	uint64_t dir_fh;
	unsigned n = 0;

	requests[0] = (struct request){
		.op = FUSE_OPENDIR, .node = dir, .out_len = sizeof(struct fuse_open_out)};
	BODY(0, fuse_open_in, .flags = O_DIRECTORY);
	serve(1);
	dir_fh = ((const struct fuse_open_out *)requests[0].reply)->fh;
	for (int pass = 0; pass < 2; pass++) {
		unsigned known = 0;

		count_begin();
		n = read_all(dir, dir_fh, op, ones);
		if (pass)
			count_end(name, n);
		while (op == FUSE_READDIRPLUS && known < n && ones[known].nodeid)
			known++;
		if (op == FUSE_READDIRPLUS) {
			count_begin();
			for (unsigned i = 0; i < n; i += 100)
				forget_batch(ones + i, MIN(100u, n - i));
			if (pass)
				count_end("forget", n);
		}
	}
	need(n >= ENTRIES);
}

/* ---- all ----- */

static void make_files(const char *top)
{
	int dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC), sub;

	need(dir >= 0 && !mkdirat(dir, "many", 0755));
	for (unsigned i = 0; i < FILES; i++) {
		int fd = openat(dir, file_name('f', i), O_RDWR | O_CREAT | O_CLOEXEC, 0644);

		need(fd >= 0 && !posix_fallocate(fd, 0, FILE_LEN));
		close(fd);
	}
	sub = openat(dir, "many", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (unsigned i = 0; i < ENTRIES; i++)
		close(openat(sub, file_name('m', i), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
	close(sub);
	close(dir);
}

static void open_session(void)
{
	requests[0] = (struct request){.op = FUSE_INIT, .out_len = sizeof(struct fuse_init_out)};
	BODY(0, fuse_init_in, .major = 7, .minor = 31, .max_readahead = 131072,
	     .flags = FUSE_ASYNC_READ | FUSE_ATOMIC_O_TRUNC | FUSE_BIG_WRITES |
		      FUSE_DO_READDIRPLUS | FUSE_PARALLEL_DIROPS | FUSE_MAX_PAGES);
	requests[0].body_len = offsetof(struct fuse_init_in, flags2);
	serve(1);
}

static uint64_t find_dir(const char *name)
{
	requests[0] = (struct request){
		.op = FUSE_LOOKUP, .node = FUSE_ROOT_ID, .out_len = sizeof(struct fuse_entry_out)};
	put_name(0, name);
	serve(1);
	return ((const struct fuse_entry_out *)requests[0].reply)->nodeid;
}

static void create_share(const char *top)
{
	static struct fs_config cfg;
	char options[300];

	snprintf(options, sizeof(options), "tag=count,poll_us=0,path=%s", top);
	count_device(&fs_device, &cfg, options, 0);
}

int main(int argc, char **argv)
{
	uint64_t many;

	need(argc == 2);
	make_files(argv[1]);
	create_share(argv[1]);
	open_session();
	count("lookup", prepare_lookup, keep_node);
	count("getattr", prepare_getattr, NULL);
	count_chain("open-read-close", prepare_open, keep_handle, prepare_read, prepare_release);
	round_of(prepare_open, keep_handle, 0);
	count("read-4k", prepare_read, NULL);
	count("write-4k", prepare_write, NULL);
	round_of(prepare_release, NULL, 0);
	count_chain("create-write-close", prepare_create, keep_both, prepare_write,
		    prepare_release);
	count_unlink();
	many = find_dir("many");
	count_dir("readdir", many, FUSE_READDIR);
	count_dir("readdirplus", many, FUSE_READDIRPLUS);
	fg_destroy(fg);
	return 0;
}
