// SPDX-License-Identifier: Apache-2.0
/*
 * p9.c - the 9P2000.L client: messages, session, single requests. Calls: vq.c.
 */
#include "p9.h"

/* Static: devices read and write them. */
static struct {
	struct vdev *dev;
	uint32_t len[SLOT_MAX]; /* of the message that is being made */
	unsigned faults;
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

static uint32_t seg_append(struct seg *to, uint32_t n, const struct seg *s, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (s[i].len)
			to[n++] = s[i];
	return n;
}

long p9_try(const struct seg *out, uint32_t nout, const struct seg *in, uint32_t nin)
{
	struct seg s[2 * P9_SEGS] = {{hdr_out[0], 0}};
	uint32_t n = seg_append(s, 1, out, nout), readable = n, len, data = 0;
	int e;

	for (uint32_t i = 1; i < n; i++)
		data += s[i].len;
	s[0].len = p9_end(0, data);
	s[n] = (struct seg){hdr_in[0], nin ? P9_IO : P9_REPLY};
	n = seg_append(s, n + 1, in, nin);
	len = vq_call(p9_queue(), s, readable, n - readable);
	e = p9_error(0, len);
	if (e < 0 || load32(hdr_in[0]) != len) {
		p9.faults++;
		return -EPROTO;
	}
	return e ? -e : (long)(len - P9_HEADER);
}

long p9_do(void)
{
	return p9_try(NULL, 0, NULL, 0);
}

unsigned p9_faults(void)
{
	return p9.faults;
}

uint32_t p9_get32(uint32_t off)
{
	return load32(P9_BODY + off);
}

uint64_t p9_get64(uint32_t off)
{
	return p9_get32(off) | (uint64_t)p9_get32(off + 4) << 32;
}

uint32_t p9_call(void *in, uint32_t in_len)
{
	long r = p9_try(NULL, 0, &(struct seg){in, in_len}, in ? 1 : 0);

	if (r < 0)
		give_up("9p: request %u: error %ld", hdr_out[0][4], -r);
	return in ? p9_get32(0) : 0;
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

void p9_down(void)
{
	p9.dev = NULL;
}

long p9_version(uint32_t msize, const char *version, char said[16])
{
	uint32_t len;
	long r;

	p9_begin(0, P9_TVERSION);
	p9_u32(0, msize);
	p9_name(0, version, (uint32_t)strlen(version));
	r = p9_do();
	if (r < 0)
		return r;
	len = (uint32_t)P9_BODY[4] | (uint32_t)P9_BODY[5] << 8;
	memset(said, 0, 16);
	memcpy(said, P9_BODY + 6, MIN(len, 15u));
	return p9_get32(0);
}

void p9_up(struct vdev *d)
{
	char said[16];

	if (p9.dev == d && virtio_status(d) == STATUS_DRIVER_OK)
		return;
	p9.dev = d;
	virtio_up(d, 1ull << VIRTIO_9P_MOUNT_TAG | virtio_ring_features(), 1);
	if (p9_version(P9_MSIZE, "9P2000.L", said) < 0 || !text_equal(said, "9P2000.L"))
		give_up("9p: no session");
	if (p9_attach(P9_ROOT, "") < 0)
		give_up("9p: the root cannot be attached");
}
