// SPDX-License-Identifier: Apache-2.0
/*
 * t_fuse_dax.c - files that a guest maps into its window: what it may ask for, which files it is told to map, and the end
 * of a session.
 *
 * What the window shows is in t_dax.c and t_dax_change.c; here, that a guest is told of nothing that it is not shown. Hard cases D60, D67.
 */
#include "fakeguest.h"
#include "fuse_door.h"
#include "../devices/dax.h"
#include "../vmm/window.h"

#define SIZE  MIB(8)
#define RANGE MIB(2) /* what Linux maps at a time */
#define READ  FUSE_SETUPMAPPING_FLAG_READ
#define WRITE FUSE_SETUPMAPPING_FLAG_WRITE

static struct fakeguest *fg;
static struct window *w;
static uint64_t f;

static int map(uint64_t node, uint64_t foffset, uint64_t moffset, uint64_t len, uint64_t flags)
{
	const struct fuse_setupmapping_in in = {.fh = UINT64_MAX,
						.foffset = foffset,
						.len = len,
						.flags = flags,
						.moffset = moffset};

	return ask(FUSE_SETUPMAPPING, node, &in, sizeof(in), NULL, 0);
}

static int unmap_as(uint32_t count, const struct fuse_removemapping_one *one, size_t n)
{
	const struct fuse_removemapping_in in = {count};

	return ask2(FUSE_REMOVEMAPPING, f, &in, sizeof(in), one, n * sizeof(*one), NULL, 0);
}

static int unmap(uint64_t moffset, uint64_t len)
{
	const struct fuse_removemapping_one one = {moffset, len};

	return unmap_as(1, &one, 1);
}

/* Whether anything is mapped there, asked without touching it. */
static bool is_there(uint64_t off)
{
	int pair[2];
	bool there;

	need(!pipe(pair));
	there = write(pair[1], w->host + off, 1) == 1;
	close(pair[0]);
	close(pair[1]);
	return there;
}

static char look(uint64_t off)
{
	return *(volatile char *)(w->host + off);
}

static void open_up(struct fuse_config cfg, bool readonly)
{
	static char data[KIB(64)];

	memset(data, 'a', sizeof(data));
	host_write("f", data, sizeof(data));
	fg = fg_create(MIB(4));
	need(!dax_create(&door.dax, fg->vm, "fs0", SIZE));
	w = dax_window(door.dax);
	door_open(cfg, readonly);
	session_of(45, UINT64_MAX);
	f = find(ROOT, "f");
}

static void close_up(void)
{
	door_close();
	dax_destroy(door.dax);
	door.dax = NULL;
	fg_destroy(fg);
	host_clear(door.dir);
}

static int resize(uint64_t size)
{
	const struct fuse_setattr_in in = {.valid = FATTR_SIZE, .size = size};
	struct fuse_attr_out o;

	return MIN(ask(FUSE_SETATTR, f, &in, sizeof(in), &o, sizeof(o)), 0);
}

/* ---- what is agreed on ---- */

static uint64_t agreed(struct fuse_init_out *o)
{
	need(ask_init(7, 45, UINT64_MAX, o) == sizeof(*o));
	return o->flags | (uint64_t)o->flags2 << 32;
}

static uint32_t flags_of(const char *name)
{
	struct fuse_entry_out e;
	struct fuse_attr a = {0};

	need(ask_lookup(ROOT, name, &e) == sizeof(e) && !ask_attr(e.nodeid, &a));
	always(a.flags == e.attr.flags, "a name and its object say the same");
	return a.flags;
}

static void test_policy(void)
{
	struct fuse_config cfg = BY_MODE;
	struct fuse_init_out o;

	cfg.dax_min_size = 4096;
	open_up(cfg, false);
	ok((agreed(&o) & (FUSE_MAP_ALIGNMENT | FUSE_HAS_INODE_DAX)) == FUSE_MAP_ALIGNMENT,
	   "a window is mapped as the guest mounts");
	is(1 << o.map_alignment, getpagesize(), "in pages of the host");
	is(flags_of("f"), 0, "no file is marked");
	close_up();
	cfg.dax_policy = FUSE_DAX_INODE;
	open_up(cfg, false);
	ok(agreed(&o) & FUSE_HAS_INODE_DAX, "or as we say of each file");
	host_write("small", o.unused, 1);
	host_write("just", (char[4096]){0}, 4096);
	need(!mkdirat(door.dir, "d", 0755));
	is(flags_of("f"), FUSE_ATTR_DAX, "a large one is mapped");
	is(flags_of("just"), FUSE_ATTR_DAX, "also the smallest of these");
	is(flags_of("small"), 0, "a smaller one is read");
	is(flags_of("d"), 0, "and a directory never mapped");
	session_of(45, UINT64_MAX & ~FUSE_HAS_INODE_DAX);
	is(flags_of("f"), 0, "a guest that does not know of it is not told");
	close_up();
}

/* ---- what is mapped ---- */

static void test_map(void)
{
	const struct fuse_removemapping_one two[] = {{0, RANGE}, {RANGE, RANGE}};
	char c = 0;
	int fd;

	open_up(BY_MODE, false);
	is(map(f, 0, 0, RANGE, READ), 0, "a range of a file is mapped");
	is(look(KIB(64) - 1), 'a', "and seen");
	is(map(f, 0, RANGE, RANGE, READ | WRITE), 0, "again, to be written");
	w->host[RANGE + 5] = 'b';
	fd = openat(door.dir, "f", O_RDWR | O_CLOEXEC);
	need(fd >= 0);
	ok(pread(fd, &c, 1, 5) == 1 && c == 'b' && look(5) == 'b', "and is");
	need(pwrite(fd, "c", 1, 6) == 1);
	is(look(RANGE + 6), 'c', "what the host writes is there too");
	close(fd);
	is(unmap(0, RANGE), 0, "a mapping goes");
	ok(!is_there(0) && is_there(RANGE), "and no other");
	is(map(f, 0, 0, RANGE, READ), 0, "it comes back");
	is(unmap_as(2, two, 2), 0, "several go at once");
	ok(!is_there(0) && !is_there(RANGE), "all of them");
	is(unmap(0, SIZE), 0, "what is not there may go");
	is(held().handles, 0, "none of it holds a handle");
	close_up();
}

static void test_lies(void)
{
	const struct fuse_removemapping_one one[] = {{0, RANGE}, {SIZE, RANGE}};
	uint64_t d;

	open_up(BY_MODE, false);
	need(!mkdirat(door.dir, "d", 0755) && !mkfifoat(door.dir, "p", 0600));
	d = find(ROOT, "d");
	is(map(f, 0, 0, RANGE, 0), -EINVAL, "a mapping that cannot be read is none");
	is(map(f, 0, 0, RANGE, WRITE), -EINVAL, "nor one that can only be written");
	is(map(f, 0, 0, RANGE, READ | 4), -EINVAL, "nor one that can do more");
	is(map(f, 0, 0, 0, READ), -EINVAL, "or is empty");
	is(map(f, 1, 0, 4096, READ), -EINVAL, "or not of pages");
	is(map(f, 0, SIZE, RANGE, READ), -EINVAL, "or beyond the window");
	is(map(f, 0, RANGE, SIZE, READ), -EINVAL, "or half of it");
	is(map(f, 0, RANGE, UINT64_MAX - RANGE + 1, READ), -EINVAL, "or whose end wraps");
	is(map(f, UINT64_MAX - 4095, 0, 8192, READ), -EINVAL, "in the file too");
	ok(map(d, 0, 0, RANGE, READ) < 0, "a directory is not mapped");
	ok(map(find(ROOT, "p"), 0, 0, RANGE, READ) < 0, "nor a fifo");
	is(map(4711, 0, 0, RANGE, READ), -ESTALE, "nor what is not known");
	ok(!is_there(0) && !is_there(RANGE), "and nothing was mapped");
	need(!map(f, 0, 0, RANGE, READ));
	is(unmap_as(2, one, 1), -EINVAL, "a list shorter than said");
	is(unmap_as(UINT32_MAX, one, 2), -EINVAL, "or much shorter");
	ok(is_there(0), "takes nothing away");
	is(unmap_as(0, one, 2), 0, "an empty list neither");
	ok(is_there(0), "is there still");
	is(unmap_as(2, one, 2), -EINVAL, "a part that is not of the window");
	is(unmap(1, 4096), -EINVAL, "or not of pages is refused");
	close_up();
}

static void test_readonly(void)
{
	open_up(BY_MODE, true);
	is(map(f, 0, 0, RANGE, READ), 0, "a read-only share is mapped to be read");
	is(map(f, 0, 0, RANGE, READ | WRITE), -EROFS, "and not to be written");
	is(look(0), 'a', "which changes nothing");
	close_up();
}

static void test_end(void)
{
	open_up(BY_MODE, false);
	need(!map(f, 0, 0, RANGE, READ) && !map(f, 0, 2 * RANGE, RANGE, READ));
	session_of(45, UINT64_MAX);
	ok(!is_there(0) && !is_there(2 * RANGE), "a new session has an empty window");
	f = find(ROOT, "f");
	need(!map(f, 0, 0, RANGE, READ));
	loop_call(door.io, door_end, NULL);
	ok(!is_there(0), "a reset empties it");
	close_up();
}

static void test_none(void)
{
	host_write("f", "x", 1);
	door_open(BY_MODE, false);
	session_of(45, UINT64_MAX);
	f = find(ROOT, "f");
	is(map(f, 0, 0, RANGE, READ), -ENOSYS, "without a window nothing is mapped");
	is(unmap(0, RANGE), -ENOSYS, "or taken away");
	door_close();
}

/* ---- files that change ---- */

static void changed(void *arg)
{
	(void)arg;
	fuse_window_changed(door.fuse);
}

/* The file is one page, its mapping longer. */
static void shorten(void)
{
	need(!resize(4096));
	loop_call(door.io, changed, NULL);
	need(is_there(4096) && !look(4096) && is_there(RANGE - 1));
}

static void host_put(char c, off_t off)
{
	int fd = openat(door.dir, "f", O_WRONLY | O_CLOEXEC);

	need(fd >= 0 && pwrite(fd, &c, 1, off) == 1);
	close(fd);
}

static bool is_shown(off_t off)
{
	host_put('h', off);
	return look((uint64_t)off) == 'h';
}

static void test_told(void)
{
	struct fuse_fallocate_in space = {.length = 8192};
	const struct fuse_statx_in sx = {.sx_mask = STATX_BASIC_STATS};
	struct fuse_copy_file_range_in copy = {.len = 4096, .off_out = 8192};
	struct fuse_statx_out sx_out;
	struct fuse_attr a;
	uint64_t fh;

	open_up(BY_MODE, false);
	fh = open_file(f, O_RDWR);
	need(!map(f, 0, 0, RANGE, READ | WRITE));
	ok(is_there(KIB(64)) && !look(KIB(64)), "behind the end of a file are zeros");
	is(ask_write(f, fh, KIB(64), "w", 1), 1, "the guest writes there");
	is(look(KIB(64)), 'w', "and sees what it wrote");
	make_slow(fh);
	shorten();
	is(ask_write(f, fh, 8191, "ww", 2), 2, "also if the write takes long");
	ok(look(8191) == 'w' && look(8192) == 'w', "over the end of a page");
	shorten();
	need(!resize(8192));
	ok(is_shown(8191), "it sets the size");
	shorten();
	space.fh = fh;
	space.mode = FALLOC_FL_KEEP_SIZE;
	is(ask(FUSE_FALLOCATE, f, &space, sizeof(space), NULL, 0), 0, "space behind the end");
	ok(!look(4096), "does not move that");
	space.mode = 0;
	is(ask(FUSE_FALLOCATE, f, &space, sizeof(space), NULL, 0), 0, "but it may");
	ok(is_shown(8191), "and is seen to");
	shorten();
	copy.fh_in = copy.fh_out = fh;
	copy.nodeid_out = f;
	is(ask(FUSE_COPY_FILE_RANGE, f, &copy, sizeof(copy), &sx_out, 8), 8, "it copies there");
	is(look(8192 + 4095), look(4095), "and sees what");
	shorten();
	host_put('h', 8000);
	ok(!look(8000), "what the host adds is shown");
	need(!ask_attr(f, &a) && a.size == 8001);
	is(look(8000), 'h', "before the guest is told of it");
	shorten();
	host_put('i', 8000);
	need(ask(FUSE_STATX, f, &sx, sizeof(sx), &sx_out, sizeof(sx_out)) == sizeof(sx_out));
	is(look(8000), 'i', "by any call");
	shorten();
	host_put('j', 8000);
	need(find(ROOT, "f") == f);
	is(look(8000), 'j', "or a name");
	shorten();
	host_put('k', 8000);
	loop_call(door.io, changed, NULL);
	is(look(8000), 'k', "or soon after");
	close_up();
}

static void on_changed(struct watch *watch)
{
	(void)watch;
	changed(NULL);
}

static void watch_it(void *arg)
{
	struct watch *watch = arg;

	need(!loop_watch(door.io, watch));
}

/* One thread hears of the cuts that the guest makes on another, which must never see zeros for what it wrote. */
static void test_told_together(void)
{
	struct watch watch = {.kind = WATCH_READABLE, .ready = on_changed};
	unsigned good = 0;
	uint64_t fh;

	door.nthreads = 2;
	open_up(BY_MODE, false);
	watch.fd = dax_events(door.dax);
	loop_call(door.io, watch_it, &watch);
	door_via = door.threads[1];
	fh = open_file(f, O_RDWR);
	need(!map(f, 0, 0, RANGE, READ | WRITE));
	for (unsigned i = 0; i < 1000; i++) {
		const uint64_t at = 4096 * (1 + i % 8);
		const char c = (char)('A' + i % 26);

		need(!resize(i % 4096) && ask_write(f, fh, at, &c, 1) == 1);
		/* For a while: a look at the file may have begun before the write. */
		for (unsigned k = 0; k < 2000 && look(at) == c; k++)
			good += k == 1999;
	}
	is(good, 1000, "what was cut and written on one thread is seen whatever another hears");
	door_via = NULL;
	close_up();
}

int main(void)
{
	unsigned fds;

	door_set_up("t_fuse_dax");
	fds = host_descriptors();
	test_policy();
	test_map();
	test_lies();
	test_readonly();
	test_end();
	test_none();
	test_told();
	test_told_together();
	is(host_descriptors(), fds, "nothing is left open");
	door_tear_down();
	return done();
}
