// SPDX-License-Identifier: Apache-2.0
/*
 * virtio.h - the driver's side: finding devices on both transports, bringing them up, split queues.
 *
 * No interrupts are taken: used rings are polled. A queue has up to SLOT_MAX requests in flight; the slot of a request
 * is its head descriptor, or its indirect table. Tests that break the rules write the rings themselves.
 * Spec: virtio 1.2, 2.7 (split queues), 2.10 (shared memory), 3.1.1 (initialisation), 4.1 (PCI), 4.2 (MMIO).
 */
#ifndef PAYLOAD_VIRTIO_H
#define PAYLOAD_VIRTIO_H

#include "payload.h"
#include <linux/virtio_blk.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ids.h>
#include <linux/virtio_pci.h>
#include <linux/virtio_mmio.h>
#include <linux/virtio_ring.h>

#define QUEUE_MAX   256
#define VDEV_QUEUES 9
#define SLOT_MAX    64
#define SLOT_BYTES  (128u << 10)
#define POOL_BYTES  ((size_t)SLOT_MAX * SLOT_BYTES)
#define HDR_BYTES   512

extern uint8_t pool[POOL_BYTES];             /* requests' data */
extern uint8_t hdr_out[SLOT_MAX][HDR_BYTES]; /* and their headers */
extern uint8_t hdr_in[SLOT_MAX][HDR_BYTES];

struct seg {
	const void *p;
	uint32_t len;
};

struct vq {
	struct vdev *dev;
	struct vring_desc *desc;
	struct vring_avail *avail;
	struct vring_used *used;
	uint16_t index, size;
	uint16_t stride; /* descriptors per slot */
	uint16_t avail_next, kicked, used_next;
	uint16_t notify_off;
	bool interrupts; /* asked for: vq_poll() must not take it back before the device has looked */
	uint64_t kicks, kick_cycles; /* doorbells rung, and the time in them */
};

struct vdev {
	uint16_t type; /* VIRTIO_ID_* */
	bool pci;
	uint32_t bdf;                         /* pci */
	uint64_t common, notify, config, isr; /* pci; config also mmio */
	uint64_t base;                        /* mmio: the window */
	uint32_t notify_mult;
	uint64_t shm, shm_len; /* a shared memory region (2.10): guest-physical; 0: there is none */
	uint8_t shm_id;
	uint32_t gsi;      /* mmio */
	uint64_t features; /* negotiated */
	struct vq q[VDEV_QUEUES];
};

/* ---- virtio_find.c, pci.c ---- */

void virtio_find_all(void);
/* The nth of a type, or NULL. */
struct vdev *virtio_find(uint16_t type, unsigned nth);
/* For the scan: room for one more, then it is kept. NULL when there is no more room. */
struct vdev *virtio_found_next(void);
void virtio_found_keep(void);

uint32_t pci_read(uint32_t bdf, unsigned reg, unsigned len);
void pci_write(uint32_t bdf, unsigned reg, unsigned len, uint32_t v);
/* Offset of the nth capability of this kind, 0 if there is none. */
unsigned pci_capability(uint32_t bdf, uint8_t id, unsigned nth);
/* Address of memory BAR n. */
uint64_t pci_bar(uint32_t bdf, unsigned n);
bool pci_is_there(void);
void pci_scan(void);

/* ---- virtio.c: registers, the same for both transports ---- */

uint8_t virtio_status(const struct vdev *);
void virtio_set_status(struct vdev *, uint8_t);
/* Writes 0 and waits until it reads 0; false if it does not within a second. */
bool virtio_reset(struct vdev *);
uint64_t virtio_offered(struct vdev *);
/* 32 feature bits of any word, also of those that hold none. */
uint32_t virtio_offered_word(struct vdev *, uint32_t word);
/* The queue that the following calls mean. */
void virtio_select(struct vdev *, uint16_t queue);
/* Before it is set, the device's maximum. */
uint32_t virtio_queue_size(const struct vdev *);
void virtio_set_queue_size(struct vdev *, uint16_t);
/* For the selected queue, whatever they hold. */
void virtio_set_queue(struct vdev *, uint16_t size, uint64_t desc);
bool virtio_queue_enabled(const struct vdev *);
/* Up to 8 bytes of the device's own configuration. */
uint64_t virtio_config(const struct vdev *, uint32_t off, unsigned len);
void virtio_doorbell(struct vq *);
void virtio_notify_at(struct vdev *, uint16_t queue, uint32_t notify_off);

/*
 * From reset to DRIVER_OK with nqueues queues; want are device bits and INDIRECT and EVENT_IDX, of which those offered
 * are taken.
 */
void virtio_up(struct vdev *, uint64_t want, unsigned nqueues);
/* Its parts: up to FEATURES_OK; one queue, in fresh memory; the ring features that options allow. */
void virtio_negotiate(struct vdev *, uint64_t want);
void virtio_queue_up(struct vdev *, uint16_t index);
uint64_t virtio_ring_features(void);
bool virtio_has(const struct vdev *, unsigned bit);

#define STATUS_FEATURES_OK \
	(VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER | VIRTIO_CONFIG_S_FEATURES_OK)
#define STATUS_DRIVER_OK (STATUS_FEATURES_OK | VIRTIO_CONFIG_S_DRIVER_OK)

/* ---- vq.c ---- */

/* Prepares for qd requests of up to nseg segments at once; how many are possible. */
uint32_t vq_depth(struct vq *, uint32_t qd, uint32_t nseg);
/* Queues the request: nout readable segments, then nin writable ones. */
void vq_add(struct vq *, uint32_t slot, const struct seg *, uint32_t nout, uint32_t nin);
/* Publishes what was queued and rings if the device asks for it. */
void vq_kick(struct vq *);
/* A finished request's slot, or -1; *len is what the device says it wrote. */
int vq_poll(struct vq *, uint32_t *len);
/* The same, but gives up (the whole program) after 20 s. */
uint32_t vq_wait(struct vq *, uint32_t *len);
/* For who waits by himself: gives up if that began so long ago. */
void vq_check_patience(const struct vq *, uint64_t since_tsc);
/* One request, on slot 0, to its end; what the device says it wrote. */
uint32_t vq_call(struct vq *, const struct seg *, uint32_t nout, uint32_t nin);
/* The used.idx at which the device would interrupt: from now on, or (false) never. */
void vq_want_interrupt(struct vq *, bool);

/* Data as segments of options.sg bytes; how many. */
uint32_t seg_data(struct seg *, const void *p, uint32_t len);
/*
 * Lays len bytes out at p in up to max pieces of odd sizes with a gap after each; returns how many pieces. The span,
 * gaps included, is less than len + 16 * max.
 */
uint32_t seg_scatter(struct seg *, uint8_t *p, uint32_t len, uint32_t max);
/* Every piece of the data at offset off follows the pattern, and every gap is as seg_scatter() left it. */
void seg_fill(const struct seg *, uint32_t n, uint32_t seed, uint64_t off);
bool seg_check(const struct seg *, uint32_t n, uint32_t seed, uint64_t off);

#endif
