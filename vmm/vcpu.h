// SPDX-License-Identifier: Apache-2.0
/*
 * vcpu.h - the threads that run the guest.
 *
 * One thread per vCPU ("vcpu0"...), each with its own filter. An exit is dispatched through the vm's buses; string
 * I/O is looped (hard case C24). A vCPU whose own exit ended the machine does not re-enter (C3). Kicking is
 * race-free: the signal handler sets immediate_exit of its own thread's kvm_run, the flag is looked at before every
 * KVM_RUN (C1). Half-finished PIO/MMIO is completed before registers are looked at (C2).
 */
#ifndef VMM_VCPU_H
#define VMM_VCPU_H

#include "base.h"

struct vm;
struct vcpus;
struct arch_boot;

/* Creates vm->ncpus vCPUs with CPUID and MSRs set, vCPU 0 at the entry of boot. Nothing runs. -errno (logged). */
int vcpus_create(struct vcpus **out, struct vm *, const struct arch_boot *boot) must_check;
/* Starts the threads; they enter the guest at once. */
int vcpus_start(struct vcpus *) must_check;
/* Makes every vCPU leave the guest and joins the threads. May be called twice, or before vcpus_start(). */
void vcpus_stop(struct vcpus *);
void vcpus_destroy(struct vcpus *);

#endif
