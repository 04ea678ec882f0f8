// SPDX-License-Identifier: Apache-2.0
/*
 * echo.h - the device of the transports' tests: copies the readable bytes of a request into its writable ones.
 */
#ifndef TESTS_ECHO_H
#define TESTS_ECHO_H

#include "../devices/virtio.h"
#include "../vmm/irq.h"
#include <poll.h>

#define ECHO_ID 42
/* Of its six bytes of configuration these are the driver's. */
#define ECHO_RW     2u
#define ECHO_RW_LEN 3u

struct echo {
	struct virtio_dev v;
	uint8_t config[6];
};

static void echo_one(struct chain *c)
{
	struct cursor rd = chain_rd(c), wr = chain_wr(c);
	uint32_t n = MIN(c->rd_len, c->wr_len);

	for (uint32_t i = 0; i < n; i++) {
		uint8_t b;

		cursor_get(&rd, &b, 1);
		cursor_put(&wr, &b, 1);
	}
	virtq_push(c, n);
}

static void echo_kick(struct virtio_dev *v, struct virtq *vq)
{
	struct chain *c;
	int r;

	while ((r = virtq_pop(vq, &c)) == 1)
		echo_one(c);
	if (r < 0)
		virtio_broken(v, vq, "test");
}

static const struct virtio_ops echo_ops = {.kick = echo_kick};

static void echo_init(struct echo *e, uint16_t nqueues)
{
	*e = (struct echo){.v = {.base.name = "echo",
				 .ops = &echo_ops,
				 .id = ECHO_ID,
				 .nqueues = nqueues,
				 .queue_size = 64,
				 .req_size = sizeof(struct chain),
				 .config = e->config,
				 .config_len = sizeof(e->config),
				 .config_rw = ECHO_RW,
				 .config_rw_len = ECHO_RW_LEN},
			   .config = {1, 2, 3, 4, 5, 6}};
}

/* What a write of len bytes of v at off leaves of what was in the eight bytes from 0 on, of which the last two do not exist. */
__attribute__((unused)) static uint64_t echo_config_after(uint64_t was, unsigned off, unsigned len,
							  uint64_t v)
{
	for (unsigned i = 0; i < len; i++) {
		unsigned at = off + i;

		if (at < ECHO_RW || at >= ECHO_RW + ECHO_RW_LEN)
			continue;
		was &= ~(0xffull << 8 * at);
		was |= (v >> 8 * i & 0xff) << 8 * at;
	}
	return was;
}

/* An interrupt arrives at the eventfd within ten seconds; it is taken. */
__attribute__((unused)) static bool irq_arrives(const struct irq *irq)
{
	struct pollfd p = {.fd = irq->fd, .events = POLLIN};
	uint64_t n;

	return poll(&p, 1, 10000) == 1 && read(irq->fd, &n, sizeof(n)) == sizeof(n);
}

/* None is there. For moments when nothing could be on its way. */
__attribute__((unused)) static bool irq_silent(const struct irq *irq)
{
	return poll(&(struct pollfd){.fd = irq->fd, .events = POLLIN}, 1, 0) == 0;
}

#endif
