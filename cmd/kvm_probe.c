// SPDX-License-Identifier: Apache-2.0
/*
 * kvm_probe.c - a machine of one page, timed.
 *
 * There are hosts whose /dev/kvm interprets ring-0 code (no hardware virtualization below it). Everything works there,
 * a thousand times slower, so nothing but a clock tells. The probe runs a two-instruction loop in 32-bit protected mode
 * without paging, which every hardware KVM runs natively.
 */
#include "kvm_probe.h"
#include "../vmm/base.h"
#include <fcntl.h>
#include <linux/kvm.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>

#define LOOPS 20000u /* of two instructions: 20 ms at 2 MIPS */
#define GOOD_MIPS \
	20 /* interpreters reach 2 to 5; the slowest real one seen, nested in an emulator, over 50 */
#define CODE_ADDR 0x1000

static const uint8_t code[] = {
	0xb9, LOOPS & 0xff, LOOPS >> 8 & 0xff, 0, 0, /* mov ecx, LOOPS */
	0x49,                                        /* dec ecx */
	0x75, 0xfd,                                  /* jnz back to dec */
	0xe6, 0x10,                                  /* out 0x10, al: the exit that ends it */
	0xeb, 0xf4, /* jmp to the start, for the second, timed round */
};

struct probe {
	int kvm, vm, cpu;
	void *page;
	struct kvm_run *run;
	size_t run_len;
};

static const char *set_registers(struct probe *p)
{
	struct kvm_segment flat = {.limit = 0xffffffff,
				   .selector = 8,
				   .type = 11,
				   .present = 1,
				   .s = 1,
				   .db = 1,
				   .g = 1};
	struct kvm_regs regs = {.rip = CODE_ADDR, .rflags = 2};
	struct kvm_sregs s;

	if (ioctl(p->cpu, KVM_GET_SREGS, &s))
		return "KVM_GET_SREGS";
	s.cs = flat;
	flat.selector = 16;
	flat.type = 3;
	s.ds = s.es = s.fs = s.gs = s.ss = flat;
	s.cr0 |= 1;
	if (ioctl(p->cpu, KVM_SET_SREGS, &s) || ioctl(p->cpu, KVM_SET_REGS, &regs))
		return "setting registers";
	return NULL;
}

static const char *make(struct probe *p)
{
	struct kvm_userspace_memory_region mem = {.memory_size = 0x2000};

	if (ioctl(p->kvm, KVM_GET_API_VERSION, 0) < 0)
		return "it is not KVM's device";
	p->vm = ioctl(p->kvm, KVM_CREATE_VM, 0);
	if (p->vm < 0)
		return "KVM_CREATE_VM";
	p->page = mmap(NULL, mem.memory_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	if (p->page == MAP_FAILED)
		return "mmap";
	memcpy((char *)p->page + CODE_ADDR, code, sizeof(code));
	mem.userspace_addr = (uintptr_t)p->page;
	/* Where hardware needs them for code without paging. */
	ioctl(p->vm, KVM_SET_TSS_ADDR, 0xfffbd000);
	ioctl(p->vm, KVM_SET_IDENTITY_MAP_ADDR, &(uint64_t){0xfffbc000});
	if (ioctl(p->vm, KVM_SET_USER_MEMORY_REGION, &mem))
		return "KVM_SET_USER_MEMORY_REGION";
	p->cpu = ioctl(p->vm, KVM_CREATE_VCPU, 0);
	if (p->cpu < 0)
		return "KVM_CREATE_VCPU";
	p->run_len = (size_t)ioctl(p->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	p->run = mmap(NULL, p->run_len, PROT_READ | PROT_WRITE, MAP_SHARED, p->cpu, 0);
	if (p->run == MAP_FAILED)
		return "mmap of kvm_run";
	return set_registers(p);
}

/* Microseconds of one round, or -1. */
static double round_us(struct probe *p)
{
	struct timespec a, b;

	clock_gettime(CLOCK_MONOTONIC, &a);
	if (ioctl(p->cpu, KVM_RUN, 0) || p->run->exit_reason != KVM_EXIT_IO)
		return -1;
	clock_gettime(CLOCK_MONOTONIC, &b);
	return (double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) / 1e3;
}

struct kvm_probe kvm_probe(void)
{
	struct probe p = {.kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), .vm = -1, .cpu = -1};
	struct kvm_probe out = {.kind = KVM_NONE, .why = "/dev/kvm", .err = errno};
	double us;

	if (p.kvm < 0) {
		if (errno == EACCES || errno == EPERM)
			out.kind = KVM_NO_RIGHT;
		return out;
	}
	out.why = make(&p);
	if (!out.why) {
		/* The first round pays for faults; the second one counts. */
		us = round_us(&p) < 0 ? -1 : round_us(&p);
		if (us < 0) {
			out.why = "KVM_RUN";
		} else {
			out.mips = (unsigned)(2.0 * LOOPS / MAX(us, 1.0));
			out.kind = out.mips >= GOOD_MIPS ? KVM_GOOD : KVM_EMULATES;
		}
	}
	out.err = out.why ? errno : 0;
	if (p.run && p.run != MAP_FAILED)
		munmap(p.run, p.run_len);
	if (p.page && p.page != MAP_FAILED)
		munmap(p.page, 0x2000);
	close_fd(&p.cpu);
	close_fd(&p.vm);
	close_fd(&p.kvm);
	return out;
}
