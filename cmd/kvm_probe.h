// SPDX-License-Identifier: Apache-2.0
/*
 * kvm_probe.h - what kind of KVM this host has.
 */
#ifndef CMD_KVM_PROBE_H
#define CMD_KVM_PROBE_H

enum kvm_kind {
	KVM_GOOD,     /* runs a kernel at full speed */
	KVM_NONE,     /* no /dev/kvm, or it does not work */
	KVM_NO_RIGHT, /* it is there, but may not be opened */
	KVM_EMULATES, /* ring 0 is emulated, instruction by instruction: a kernel would take hours */
};

struct kvm_probe {
	enum kvm_kind kind;
	unsigned mips;   /* million ring-0 instructions a second */
	const char *why; /* for KVM_NONE: which step failed */
	int err;
};

/* Runs a loop of at most 2 million instructions in ring 0 (well under a second everywhere) and times it. */
struct kvm_probe kvm_probe(void);

#endif
