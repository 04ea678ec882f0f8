// SPDX-License-Identifier: Apache-2.0
/*
 * payload.h - what every part of the payload uses: console, test lines, clock, options, jobs.
 *
 * The payload is one freestanding program that owns its machine, so its state lies in file-scope variables. All of
 * it runs in ring 3 on one CPU, except start_ring0() and start_trap().
 */
#ifndef PAYLOAD_PAYLOAD_H
#define PAYLOAD_PAYLOAD_H

#include "cpu.h"
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)    ((a) < (b) ? (a) : (b))
#define MAX(a, b)    ((a) > (b) ? (a) : (b))
/* Large buffers: not in the file, not cleared. */
#define POOL __attribute__((section(".bss.pool"), aligned(4096)))

/* ---- start.c ---- */

#define CMDLINE_MAX 2048
extern char cmdline[CMDLINE_MAX];
/* Bootloaders name it, and compilers call it. */
void *memcpy(void *to, const void *from, size_t n);
void *memset(void *p, int c, size_t n);
int memcmp(const void *a, const void *b, size_t n);
size_t strlen(const char *s);

/* ---- console.c: COM1, polled ---- */

/* %s %c %d %u %x, with l; %02u pads with zeros. Lines are sent when they are complete. */
void print(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Waits for a byte. */
void console_wait_key(void);
void print_args(const char *fmt, va_list) __attribute__((format(printf, 1, 0)));

/* ---- end.c: how a machine ends ---- */

/* By every register that stops a known hypervisor; a triple fault is the last. */
void end_power_off(void) __attribute__((noreturn));
/* The payload cannot go on: a last line that begins with "Bail out!", then the end. */
void give_up(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* ---- clock.c ---- */

/* From kvmclock, unless the command line has tsc_khz=. */
void clock_init(void);
extern uint64_t clock_tsc_khz;
uint64_t clock_us_since_start(void);
bool clock_passed(uint64_t since_tsc, uint64_t ms);

/* ---- map.c ---- */

/* Makes guest-physical memory above 4 GiB reachable at its own address; false: no such address. Not to be undone. */
bool map_memory(uint64_t address, uint64_t len);

/* ---- tap.c: test lines ---- */

bool tap_ok(bool good, const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
bool tap_is(uint64_t got, uint64_t want, const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
#define ok(good, ...) tap_ok(good, __FILE__, __LINE__, __VA_ARGS__)
#define is(got, want, ...) \
	tap_is((uint64_t)(got), (uint64_t)(want), __FILE__, __LINE__, __VA_ARGS__)
/* The plan, if there was any test. */
void tap_end(void);

/* ---- text.c ---- */

bool text_equal(const char *a, const char *b);
bool text_begins(const char *s, const char *prefix);
/* Decimal or 0x, with k, M or G; end may be NULL. */
uint64_t text_number(const char *s, const char **end);
/* The next item of a comma list into buf; the rest, or NULL at the end. */
const char *text_item(const char *s, char *buf, size_t cap);
/* Not for secrets. */
uint32_t random_u32(void);
/* 0..n-1. */
uint32_t random_below(uint32_t n);

/* ---- main.c ---- */

struct options {
	bool indirect, event_idx; /* negotiate them, as Linux does */
	bool quick;               /* benchmarks check two words of each block read, not all */
	bool step;                /* before the first job and after each, wait for a key */
	uint32_t sg;              /* benchmarks' data in descriptors of this size; 0: in one */
};
extern struct options options;

struct job {
	const char *op;
	uint32_t bs, qd;
	uint64_t n;      /* stop after so many operations (0: no limit) ... */
	uint32_t ms;     /* ... or after so many milliseconds */
	uint64_t size;   /* use so much of the file or disk; 0: all */
	uint32_t files;  /* how many small files */
	uint32_t queues; /* request queues to use, as far as there are that many; 0: one */
	char file[32], dir[32];
	char id[32]; /* what the drive should say it is */
};

struct vdev;
void blk_job(struct vdev *, struct job *);
void blk_test(struct vdev *, const struct job *);
void blk_test_readonly(struct vdev *);
void fs_job(struct vdev *, struct job *);
void p9_job(struct vdev *, struct job *);
void p9_test(struct vdev *);
void p9_test_readonly(struct vdev *);
void fs_test(struct vdev *, const struct job *);
void fs_test_readonly(struct vdev *);
void fs_queue_test(struct vdev *, const struct job *);
void fs_more_test(struct vdev *);
void fs_dax_test(struct vdev *);
void fs_dax_test_readonly(struct vdev *);
void rng_test(struct vdev *);
void ring_test(struct vdev *);
void reset_test(struct vdev *);
void irq_test(struct vdev *);
void register_test(struct vdev *);
void platform_test(void);
void host_job(struct job *);
void end_job(const char *how);

#endif
