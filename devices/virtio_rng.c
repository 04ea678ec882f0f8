// SPDX-License-Identifier: Apache-2.0
/*
 * virtio_rng.c - random bytes for the guest, and the template of a virtio device.
 *
 * One queue; every writable buffer the driver gives is filled from the host kernel's generator,
 * which never blocks once the host has booted. A request has no header and no status, so there is
 * nothing to parse and nothing to refuse. Runs on the device's iothread only; takes no locks.
 * Spec: virtio 1.2, 5.4. Calls: getrandom(2).
 */
#include "table.h"
#include "virtio.h"
#include <sys/random.h>
#include <sys/syscall.h>

/* Bytes per request: a driver that wants more is given this much and asks again (hard case G12). */
#define RNG_REQUEST_MAX KIB(64)

struct rng {
	struct virtio_dev v;
};

/* How many bytes were filled, from the front. */
static uint32_t rng_fill(const struct chain *c)
{
	const struct iovec *wr = c->iov + c->nrd;
	uint32_t filled = 0;

	for (unsigned i = 0; i < c->nwr && filled < RNG_REQUEST_MAX; i++) {
		size_t want = MIN((size_t)RNG_REQUEST_MAX - filled, wr[i].iov_len);
		ssize_t n = getrandom(wr[i].iov_base, want, 0);

		if (n > 0)
			filled += (uint32_t)n;
		/* A signal may cut a long call short, and there must be no gaps (2.7.8.2). */
		if (n < (ssize_t)want)
			break;
	}
	return filled;
}

static void rng_kick(struct virtio_dev *v, struct virtq *vq)
{
	struct chain *c;
	int r;

	while ((r = virtq_pop(vq, &c)) == 1)
		virtq_push(c, rng_fill(c));
	if (r < 0)
		virtio_broken(v, vq, "descriptor chain against the rules");
}

static const struct virtio_ops rng_ops = {.kick = rng_kick};

static void rng_destroy(struct device *d)
{
	free(container_of(d, struct rng, v.base));
}

static int rng_create(struct vm *vm, const void *cfg, unsigned index, struct device **out)
{
	struct rng *rng = calloc(1, sizeof(*rng));

	(void)vm, (void)cfg;
	if (!rng)
		return -ENOMEM;
	device_init(&rng->v.base, &rng_device, index, rng_destroy);
	rng->v.ops = &rng_ops;
	rng->v.id = VIRTIO_ID_RNG;
	rng->v.nqueues = 1;
	rng->v.queue_size = 64;
	rng->v.req_size = sizeof(struct chain);
	*out = &rng->v.base;
	return 0;
}

static const struct opt rng_opts[] = {
	{.key = "rate_limiter", .kind = OPT_LATER, .help = "rate limits come with a later version"},
};

static const struct syscall_rule rng_rules[] = {
	{.nr = SYS_getrandom, .why = "what the guest asks for"},
};

const struct device_type rng_device = {
	.name = "rng",
	.section = "entropy",
	.flag = "entropy",
	.help = "virtio-rng: random bytes from the host's generator",
	.class = DEVICE_VIRTIO,
	.opts = {.opts = rng_opts, .n = ARRAY_LEN(rng_opts)},
	.syscalls = &SYSCALLS(rng_rules),
	.create = rng_create,
};
