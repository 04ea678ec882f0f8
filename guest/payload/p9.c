// SPDX-License-Identifier: Apache-2.0
/*
 * p9.c - the 9P2000.L client: messages, session, single requests. Calls: vq.c.
 */
#include "p9.h"

#define MSIZE 512000u /* as one mounts it */
#define NOFID 0xffffffffu

/* Static: devices read and write them. */
static struct {
	struct vdev *dev;
	uint32_t len[SLOT_MAX]; /* of the message that is being made */
} p9;

struct vq *p9_queue(void)
{
	return &p9.dev->q[0];
}

static void put(uint32_t slot, const void *v, uint32_t n)
{
	if (p9.len[slot] + n > HDR_BYTES)
		give_up("9p: a message is too long");
	memcpy(hdr_out[slot] + p9.len[slot], v, n);
	p9.len[slot] += n;
}

void p9_u8(uint32_t slot, uint8_t v)
{
	put(slot, &v, sizeof(v));
}

void p9_u16(uint32_t slot, uint16_t v)
{
	put(slot, &v, sizeof(v));
}

void p9_u32(uint32_t slot, uint32_t v)
{
	put(slot, &v, sizeof(v));
}

void p9_u64(uint32_t slot, uint64_t v)
{
	put(slot, &v, sizeof(v));
}

void p9_name(uint32_t slot, const char *s, uint32_t len)
{
	p9_u16(slot, (uint16_t)len);
	put(slot, s, len);
}

/* The tag is the slot: no two requests of a slot are out at once. */
void p9_begin(uint32_t slot, enum p9_type type)
{
	p9.len[slot] = 4;
	p9_u8(slot, (uint8_t)type);
	p9_u16(slot, type == P9_TVERSION ? 0xffff : (uint16_t)slot);
}

uint32_t p9_end(uint32_t slot, uint32_t data)
{
	uint32_t len = p9.len[slot], all = len + data;

	memcpy(hdr_out[slot], &all, sizeof(all));
	memset(hdr_in[slot], 0, P9_IO);
	return len;
}

static uint32_t load32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

int p9_error(uint32_t slot, uint32_t len)
{
	const uint8_t *in = hdr_in[slot], *out = hdr_out[slot];

	if (len < P9_HEADER || load32(in) > len || memcmp(in + 5, out + 5, 2))
		return -1;
	if (in[4] == P9_RLERROR)
		return (int)load32(in + P9_HEADER);
	return in[4] == out[4] + 1 ? 0 : -1;
}

uint32_t p9_call(void *in, uint32_t in_len)
{
	struct seg s[] = {
		{hdr_out[0], p9_end(0, 0)}, {hdr_in[0], in ? P9_IO : P9_REPLY}, {in, in_len}};
	uint32_t len = vq_call(p9_queue(), s, 1, in ? 2 : 1);
	int e = p9_error(0, len);

	if (e)
		give_up("9p: request %u: error %d", hdr_out[0][4], e);
	return in ? load32(hdr_in[0] + P9_HEADER) : 0;
}

void p9_walk(uint32_t from, uint32_t to, const char *name)
{
	p9_begin(0, P9_TWALK);
	p9_u32(0, from);
	p9_u32(0, to);
	p9_u16(0, name ? 1 : 0);
	if (name)
		p9_name(0, name, (uint32_t)strlen(name));
	p9_call(NULL, 0);
}

void p9_open(uint32_t fid, uint32_t flags)
{
	p9_begin(0, P9_TLOPEN);
	p9_u32(0, fid);
	p9_u32(0, flags);
	p9_call(NULL, 0);
}

void p9_clunk(uint32_t fid)
{
	p9_begin(0, P9_TCLUNK);
	p9_u32(0, fid);
	p9_call(NULL, 0);
}

void p9_up(struct vdev *d)
{
	static const char version[] = "9P2000.L";

	if (p9.dev == d)
		return;
	p9.dev = d;
	virtio_up(d, 1ull << VIRTIO_9P_MOUNT_TAG | virtio_ring_features(), 1);
	p9_begin(0, P9_TVERSION);
	p9_u32(0, MSIZE);
	p9_name(0, version, sizeof(version) - 1);
	p9_call(NULL, 0);
	p9_begin(0, P9_TATTACH);
	p9_u32(0, P9_ROOT);
	p9_u32(0, NOFID);
	p9_name(0, "root", 4);
	p9_name(0, "", 0);
	p9_u32(0, 0);
	p9_call(NULL, 0);
}
