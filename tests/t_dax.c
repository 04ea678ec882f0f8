// SPDX-License-Identifier: Apache-2.0
/*
 * t_dax.c - files of a share in a window: what a guest may ask for, what it sees, and windows as buffers of a device.
 *
 * The device that copies through windows has a thread of its own. What happens to files that change while they are mapped
 * is in t_dax_change.c. Hard cases A25, D60, D67, J11.
 */
#include "dax_rig.h"
#include "echo.h"
#include <sys/uio.h>

#define AT  GIB(16)
#define AT2 GIB(32)

/* ---- tests ---- */

static void t_refused(struct rig *r)
{
	struct share_inode *file = inode_of(r, "a"), *dir = inode_of(r, "dir"),
			   *fifo = inode_of(r, "fifo");
	const struct {
		uint64_t file_off, off, len;
	} bad[] = {
		{0, 0, 0},
		{0, 0, 1},
		{0, 1, page},
		{1, 0, page},
		{page / 2, 0, page},
		{0, SIZE, page},
		{0, SIZE - page, 2 * page},
		{0, page, SIZE},
		{0, 0, SIZE + page},
		{0, UINT64_MAX - page + 1, page},
		{0, page, UINT64_MAX - page + 1},
		{0, UINT64_MAX, UINT64_MAX},
		{UINT64_MAX - page + 1, 0, page},
		{UINT64_MAX - page + 1, 0, 2 * page},
		{1ull << 63, 0, page},
		{(1ull << 63) - page, 0, 2 * page},
	};
	unsigned refused = 0, unmapped = 0, mapped = 0;

	for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
		refused += map(r, file, bad[i].file_off, bad[i].off, bad[i].len, false) == -EINVAL;
	is(refused, ARRAY_LEN(bad), "what is not whole pages inside the window is refused");
	for (unsigned i = 0; i < 12; i++)
		if (bad[i].file_off == 0)
			unmapped += unmap(r, bad[i].off, bad[i].len) == -EINVAL;
	is(unmapped, 10, "for taking away too");
	is(map(r, dir, 0, 0, page, false), -EINVAL, "a directory is not mapped");
	is(map(r, fifo, 0, 0, page, false), -EINVAL, "nor is a fifo");
	for (uint64_t off = 0; off < SIZE; off += page)
		mapped += is_there(r, off);
	is(mapped, 0, "and none of it left anything in the window");
	ok(1ull << dax_page_shift() == page, "the unit is the host's page");
	simply(r, PUT, file);
	simply(r, PUT, dir);
	simply(r, PUT, fifo);
}

static void t_sees(struct rig *r)
{
	struct share_inode *a = inode_of(r, "a"), *b = inode_of(r, "b");
	int fd = openat(top_dir, "a", O_RDWR | O_CLOEXEC);
	char *host = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	char byte = 0;

	need(fd >= 0 && host != MAP_FAILED);
	is(map(r, a, 0, 0, 4 * page, true), 0, "a file is mapped for writing");
	is(map(r, b, page, 2 * page, page, false), 0, "a page of another over its middle");
	ok(look(r, 0) == 'a' && look(r, page) == 'a' && look(r, 2 * page) == 'b' &&
		   look(r, 3 * page) == 'a' && !is_there(r, 4 * page),
	   "the window shows what was asked for");
	r->w->host[5] = 'X';
	ok(host[5] == 'X' && pread(fd, &byte, 1, 5) == 1 && byte == 'X',
	   "a write is seen by the host's mappings and reads");
	host[6] = 'Y';
	need(pwrite(fd, "Z", 1, 7) == 1);
	ok(look(r, 6) == 'Y' && look(r, 7) == 'Z', "and theirs by the guest");
	is(unmap(r, page, 2 * page), 0, "pieces of both are taken away");
	ok(look(r, 0) == 'a' && !is_there(r, page) && !is_there(r, 2 * page) &&
		   look(r, 3 * page) == 'a',
	   "and the rest stays");
	is(unmap(r, page, page), 0, "what is not mapped may be taken away");
	is(map(r, a, 0, 0, SIZE, false), 0, "a mapping may be longer than its file");
	need(!ftruncate(fd, 6 * (off_t)page) && pwrite(fd, "n", 1, 5 * (off_t)page) == 1);
	need(changed(r));
	is(look(r, 5 * page), 'n', "which may grow");
	need(!ftruncate(fd, 4 * (off_t)page));
	is(map(r, a, 0, page, page, true), 0, "the same file twice");
	simply(r, RESET, NULL);
	ok(!is_there(r, 0) && !is_there(r, 3 * page) && !is_there(r, SIZE - page),
	   "when the session ends all is gone");
	munmap(host, page);
	close(fd);
	simply(r, PUT, a);
	simply(r, PUT, b);
}

static void t_readonly(struct rig *r)
{
	struct share_inode *a = inode_of(r, "a");

	is(map(r, a, 0, 0, page, false), 0, "a read-only share is mapped for reading");
	is(map(r, a, 0, 0, 2 * page, true), -EROFS, "and not for writing");
	ok(look(r, 0) == 'a' && !is_there(r, page), "what was there before stays");
	simply(r, RESET, NULL);
	simply(r, PUT, a);
}

static void t_no_right(struct rig *r)
{
	struct share_inode *a;

	if (geteuid() == 0) {
		skip("root may do everything", "a file that may not be written");
		return;
	}
	need(!fchmodat(top_dir, "a", 0444, 0));
	a = inode_of(r, "a");
	is(map(r, a, 0, 0, page, true), -EACCES, "a file that may not be written is not mapped so");
	is(map(r, a, 0, 0, page, false), 0, "but for reading");
	simply(r, RESET, NULL);
	simply(r, PUT, a);
	need(!fchmodat(top_dir, "a", 0644, 0));
}

/* ---- windows as buffers of another device ---- */

/* What is at from is copied to to by the device; the used length, or -1. */
static long echo(struct fakeguest *fg, uint64_t from, uint64_t to, uint32_t len)
{
	struct fg_queue *q = &fg->q[0];
	uint32_t used = 0;

	fg_desc(q, 0, from, len, VRING_DESC_F_NEXT, 1);
	fg_desc(q, 1, to, len, VRING_DESC_F_WRITE, 0);
	fg_avail_push(q, 0);
	fg_kick(q);
	return fg_used(q, &used) == 0 ? (long)used : -1;
}

static void t_buffers(struct fakeguest *fg, struct rig *r, struct rig *r2)
{
	struct share_inode *a = inode_of(r, "a"), *b = inode_of(r2, "b");
	uint64_t ram = fg_alloc(fg, 4096, 64);
	int fd = openat(top_dir, "b", O_RDWR | O_CLOEXEC);
	char buf[64] = "";

	need(fd >= 0);
	need(!map(r, a, 0, page, 2 * page, true) && !map(r2, b, 0, 0, 4 * page, false));
	is(echo(fg, AT2 + page, AT + page, 64), 64, "a device copies from one window to another");
	ok(look(r, page) == 'b' && look(r, page + 63) == 'b' && look(r, page + 64) == 'a',
	   "which writes the file behind it");
	is(echo(fg, AT + 2 * page - 32, ram, 64), 64, "over a page's end into RAM");
	memset(fg_ptr(fg, ram, 64), 'r', 64);
	is(echo(fg, ram, AT + 2 * page, 64), 64, "and from RAM");
	is(look(r, 2 * page + 63), 'r', "as well");

	/* From here on pages are missing; the device's thread has a filter. */
	need(!ftruncate(fd, (off_t)page));
	is(echo(fg, AT2 + 2 * page, ram, 64), 64, "a buffer whose file was cut short is no error");
	is(memcmp(fg_ptr(fg, ram, 64), buf, 64), 0, "it is zeros");
	is(echo(fg, AT + page, AT2 + 8, 64), 64, "nor is one that may only be read");
	ok(look(r2, 8) == 'b' && pread(fd, buf, 64, 0) == 64 && buf[8] == 'b' && look(r2, 0) == 0,
	   "what was written there is the guest's alone");
	is(echo(fg, AT + SIZE - 64, ram, 64), 64, "nor one where nothing is mapped");
	is(virtio_status_read(fg->dev) & VIRTIO_CONFIG_S_NEEDS_RESET, 0, "the device is well");
	close(fd);
	simply(r, PUT, a);
	simply(r2, PUT, b);
}

static void t_bad_buffers(struct fakeguest *fg)
{
	const struct {
		uint64_t at;
		uint32_t len;
	} bad[] = {{AT + SIZE - 32, 64}, {AT - 32, 64}, {AT + SIZE, 1}, {AT, UINT32_MAX}};
	unsigned broken = 0;

	for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
		struct fg_queue *q = &fg->q[0];

		fg_start(fg, 0, 8);
		fg_desc(q, 0, bad[i].at, bad[i].len, VRING_DESC_F_WRITE, 0);
		fg_avail_push(q, 0);
		fg_kick(q);
		broken += fg_wait_broken(fg);
	}
	is(broken, ARRAY_LEN(bad), "a buffer that is not all inside breaks the queue");
}

/* A ring is dereferenced all the time: it lies in RAM. */
static void t_ring(struct fakeguest *fg, struct rig *r)
{
	struct share_inode *a = inode_of(r, "a");
	struct virtio_dev *dev = fg->dev;

	need(!map(r, a, 0, 0, 4 * page, true));
	fg_reset(fg);
	virtio_status_write(dev, 3);
	virtio_driver_features_write(dev, 1, 1);
	virtio_status_write(dev, 11);
	virtio_queue_write(dev, 0, VIRTQ_SIZE, 8);
	virtio_queue_write(dev, 0, VIRTQ_DESC_LO, (uint32_t)AT);
	virtio_queue_write(dev, 0, VIRTQ_DESC_HI, (uint32_t)(AT >> 32));
	virtio_queue_write(dev, 0, VIRTQ_READY, 1);
	virtio_status_write(dev, 15);
	ok(virtio_status_read(dev) & VIRTIO_CONFIG_S_NEEDS_RESET, "a ring in a window is refused");
	simply(r, PUT, a);
}

int main(void)
{
	struct fakeguest *fg;
	struct rig r, r2, ro;
	struct echo e;
	struct dax *none = NULL;

	log_set_level(LOG_ERR);
	set_up("t_dax");
	need(!mkdirat(top_dir, "dir", 0755) && !mkfifoat(top_dir, "fifo", 0644));
	fg = fg_create(MIB(16));
	echo_init(&e, 1);
	rig_create(&r, fg, false, AT, SIZE);
	rig_create(&r2, fg, false, AT2, SIZE);
	rig_create(&ro, fg, true, GIB(48), SIZE);
	t_refused(&r);
	t_sees(&r);
	t_readonly(&ro);
	t_no_right(&r);
	fg_attach(fg, &e.v);
	fg_start(fg, 0, 8);
	t_buffers(fg, &r, &r2);
	t_bad_buffers(fg);
	t_ring(fg, &r);
	is(dax_create(&none, fg->vm, "fs1", MIB(3)), -EINVAL, "an odd size is refused");
	ok(!none, "with nothing made");
	virtio_detach(&e.v);
	fg->dev = NULL;
	rig_close(&r);
	rig_close(&r2);
	rig_close(&ro);
	dax_destroy(NULL);
	ok(!fg->vm->mem->windows, "in the end there are no windows");
	fg_destroy(fg);
	tear_down();
	return done();
}
