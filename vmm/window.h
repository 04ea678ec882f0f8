// SPDX-License-Identifier: Apache-2.0
/*
 * window.h - guest-physical addresses whose pages come and go: files mapped into the guest.
 *
 * A window is a reserved range of our address space behind one KVM memory slot. What nobody has mapped is not accessible;
 * files are mapped over it page by page and taken away again, and KVM follows by itself. Where in the guest it lies is the
 * transport's to say (a BAR that the guest moves, a shared memory region), nowhere to begin with.
 *
 * Guest pages may vanish under us: a file truncated on the host leaves mapped pages without anything behind. Our own access
 * is then a SIGBUS, the guest's an EFAULT of KVM_RUN: neither may end the machine (hard cases D67, J11). What is touched
 * there becomes a page of zeros, private to the machine, said once; it stays until something is mapped there again. But a
 * guest that can be interrupted gets no EFAULT: KVM takes the page for one that is being read, and lets it try again, for
 * ever. So whoever maps files puts zeros there himself, with window_blank(), and this is the last resort.
 */
#ifndef VMM_WINDOW_H
#define VMM_WINDOW_H

#include "base.h"
#include "bus.h"

struct vm;

struct window {
	struct vm *vm;       /* borrowed */
	const char *name;    /* borrowed */
	struct window *next; /* of vm->mem->windows */
	uint8_t *host;
	uint64_t size; /* a power of two, at least 2 MiB */
	uint64_t base; /* atomic: guest-physical; 0: nowhere */
	unsigned slot;
	/* What is private to window*.c: which parts have files, and the lock that mapping and repairing are done under. */
	struct window_state *state;
};

/* Reserves size bytes and a slot. Before the vCPUs run. -errno (logged: size, remedy). */
int window_create(struct window **out, struct vm *, const char *name, uint64_t size) must_check;
/* After the vCPUs have ended, or were never made. NULL is fine. */
void window_destroy(struct window *);
/*
 * Where the guest sees it from now on; 0: nowhere. Any thread, but one call for a window at a time. Where it cannot be it is
 * nowhere: -EINVAL (not aligned to 2 MiB, or it would wrap), -EEXIST (over RAM or another window), -errno of KVM.
 */
int window_place(struct window *, uint64_t base) must_check;
/* A place for it that is the host's to choose: above RAM and the PCI windows. -ENOSPC. */
int window_alloc(struct window *, uint64_t *base) must_check;
/*
 * What answers on the bus where the window lies (owner: the window): an access that came by exit, because KVM emulates the
 * instruction or has no slot there, reaches the same memory.
 */
extern const struct bus_ops window_ops;
/*
 * The host addresses of len bytes from off, to map a file over (MAP_FIXED) before window_mapped() is called, which must be
 * called: no fault is repaired meanwhile. NULL: too many pieces, nothing is held. off and len are page aligned and inside.
 * done: whether there is a file now; if not, what was there is still there.
 */
void *window_hold(struct window *, uint64_t off, uint64_t len) must_check;
void window_mapped(struct window *, uint64_t off, uint64_t len, bool done);
/*
 * Zeros, private to the machine, over len bytes from off: a part of one file's mapping, or all of it. -ENOMEM: too many
 * pieces (never for all of it); nothing has changed.
 */
int window_blank(struct window *, uint64_t off, uint64_t len) must_check;
/* len bytes from off become inaccessible again. -ENOMEM; not for the whole window, unless the host has no memory. */
int window_unmap(struct window *, uint64_t off, uint64_t len) must_check;
/*
 * KVM_RUN said EFAULT: puts zeros where mappings reach past the end of their files. True: something was mended, here or by
 * another thread since the last call with the same seen (0 to begin with), and the guest may go on. On a vCPU thread.
 */
bool window_repair(struct vm *, unsigned *seen) must_check;
/*
 * Handles SIGBUS and SIGSEGV of our own threads that hit a window, for as long as the process runs; all others go to whoever
 * handled them before. Once, before threads are made, and after whoever else wants these signals. -errno (logged).
 */
int window_init(void) must_check;

#endif
