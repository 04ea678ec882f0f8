// SPDX-License-Identifier: Apache-2.0
/*
 * start.h - what boot.S calls, and what ring 0 leaves behind for clock.c and end.c.
 */
#ifndef PAYLOAD_START_H
#define PAYLOAD_START_H

#include <stdbool.h>
#include <stdint.h>

/* As KVM fills it (Linux's pvclock-abi.h, which user space headers do not have). */
struct start_pvclock {
	uint32_t version, pad;
	uint64_t tsc, ns;
	uint32_t mul;
	int8_t shift;
	uint8_t flags, pad2[2];
};
extern struct start_pvclock start_pvclock;
/* Of the first instruction in C. */
extern uint64_t start_tsc;
/* The next exception is meant: no line about it. */
extern bool start_quiet;

void start_ring0(uint64_t pvh, uint64_t boot_params);
void start_ring3(void);
void start_trap(const uint64_t *frame, uint64_t cr2);
void payload_main(void);

#endif
