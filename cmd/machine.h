// SPDX-License-Identifier: Apache-2.0
/*
 * machine.h - from the model to a running machine.
 *
 * The order is the safety: everything is opened, checked and mapped before the first thread runs; each thread installs
 * its filter first thing; guests run last. All functions on the main thread.
 */
#ifndef CMD_MACHINE_H
#define CMD_MACHINE_H

#include "../vmm/vm.h"
#include "config.h"

struct machine;

/* Opens and wires everything. Nothing runs. 0 or -errno; every failure is one logged line. */
int machine_create(struct machine **out, const struct config *) must_check;
/* Starts device threads, then the vCPUs, then locks this thread down. */
int machine_start(struct machine *) must_check;

struct machine_end {
	enum vm_end why;
	int signal; /* VM_USER by a signal: which */
	char detail[128];
};
/*
 * Waits until the machine ends, SIGINT/SIGTERM/SIGHUP/SIGQUIT arrives (they are blocked and read here), or timeout_s
 * seconds are over (0: no limit). What runs is stopped by machine_destroy(). At SIGUSR1, which is read here too, every
 * device looks again at what the host has behind it (device.refresh).
 */
void machine_wait(struct machine *, unsigned timeout_s, struct machine_end *);
/* From now on those signals call handler: a tear-down that takes too long can be cut short by asking again. */
void machine_die_on_signal(void (*handler)(int));
/* Stops what runs and frees everything; a half-made machine is fine. */
void machine_destroy(struct machine *);

#endif
