// SPDX-License-Identifier: Apache-2.0
/*
 * count_disk.c - a disk driven through a real ring, in-process, for tests/bench/count.sh to count what each request costs.
 *
 *   count_disk DIRECTORY      (its image is made there)
 *
 * What is read is checked. Calls: count.h.
 */
#include "count.h"
#include "../../devices/virtio_blk.h"
#include <fcntl.h>
#include <linux/virtio_blk.h>

#define DISK_LEN MIB(8)
#define MOST     KIB(128)

/* Each sector of the image begins with its number. */
static void make_image(const char *path)
{
	auto_fd fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	need(fd >= 0);
	for (uint64_t sector = 0; sector < DISK_LEN / 512; sector++) {
		uint64_t data[64] = {sector};

		need(write(fd, data, sizeof(data)) == sizeof(data));
	}
}

struct request {
	uint64_t sector, data_gpa, status_gpa;
};

static uint16_t post(struct request *r, uint32_t type, uint32_t len)
{
	static const uint8_t data[MOST];
	const struct virtio_blk_outhdr hdr = {.type = htole32(type), .sector = htole64(r->sector)};
	const bool in = type == VIRTIO_BLK_T_IN, out = type == VIRTIO_BLK_T_OUT;
	const struct fg_buf rd[] = {{&hdr, sizeof(hdr)}, {data, len}};
	const struct fg_buf wr[] = {{NULL, len}, {NULL, 1}};
	uint64_t gpa[2];
	uint16_t head = fg_add(&fg->q[0], rd, out ? 2 : 1, in ? wr : wr + 1, in ? 2 : 1, gpa);

	r->data_gpa = gpa[0];
	r->status_gpa = gpa[in];
	return head;
}

static void check(const struct request *r, uint32_t type)
{
	need(!*(uint8_t *)fg_ptr(fg, r->status_gpa, 1));
	if (type == VIRTIO_BLK_T_IN)
		need(*(uint64_t *)fg_ptr(fg, r->data_gpa, 8) == r->sector);
}

/* COUNT_BATCH requests of len bytes at scattered places, to their end. */
static void round_of(uint32_t type, uint32_t len, unsigned k)
{
	struct request requests[COUNT_BATCH], *of_head[VIRTQ_MAX_SIZE];
	uint32_t used;

	for (unsigned i = 0; i < COUNT_BATCH; i++) {
		struct request *r = &requests[i];

		r->sector = len ? (k * 31 + i * 7) % (DISK_LEN / len) * (len / 512) : 0;
		of_head[post(r, type, len)] = r;
	}
	for (unsigned i = 0; i < COUNT_BATCH; i++) {
		int head = fg_used(&fg->q[0], &used);

		need(head >= 0);
		check(of_head[head], type);
	}
}

static void count(const char *name, uint32_t type, uint32_t len)
{
	for (unsigned k = 0; k < COUNT_WARM; k++)
		round_of(type, len, k);
	count_begin();
	for (unsigned k = 0; k < COUNT_ROUNDS; k++)
		round_of(type, len, k);
	count_end(name, COUNT_ROUNDS * COUNT_BATCH);
}

/* Reads first: what is written there afterwards are zeros. */
int main(int argc, char **argv)
{
	static struct blk_config cfg;
	char path[200], options[300];

	need(argc == 2);
	snprintf(path, sizeof(path), "%s/image", argv[1]);
	make_image(path);
	snprintf(options, sizeof(options), "drive_id=count,poll_us=0,queues=1,path_on_host=%s",
		 path);
	count_device(&blk_device, &cfg, options, 1ull << VIRTIO_BLK_F_FLUSH);
	count("read-512", VIRTIO_BLK_T_IN, 512);
	count("read-4k", VIRTIO_BLK_T_IN, KIB(4));
	count("read-128k", VIRTIO_BLK_T_IN, KIB(128));
	count("write-4k", VIRTIO_BLK_T_OUT, KIB(4));
	count("flush", VIRTIO_BLK_T_FLUSH, 0);
	fg_destroy(fg);
	return 0;
}
