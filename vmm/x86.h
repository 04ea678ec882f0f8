// SPDX-License-Identifier: Apache-2.0
/*
 * x86.h - what the x86 files share among themselves; everybody else includes arch.h.
 */
#ifndef VMM_X86_H
#define VMM_X86_H

#include "base.h"

struct arch_boot;
struct vm;

/* One page for the identity map (processors without unrestricted guest mode), then three for the
 * TSS. */
#define X86_KVM_PAGES      0xfffbc000ull
#define X86_KVM_PAGES_SIZE 0x4000ull

/* x86_boot.c: registers of the vCPU that starts, to match what arch_boot_write() puts in RAM.
 * -errno (logged). */
int x86_entry_set(int vcpu_fd, const struct arch_boot *) must_check;
/* x86_cpuid.c: what KVM supports, made this vCPU's own and masked by vm->cpu_mask. -errno (logged). */
int x86_cpuid_set(const struct vm *, int vcpu_fd, unsigned id) must_check;

#endif
