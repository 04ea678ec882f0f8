// SPDX-License-Identifier: Apache-2.0
/*
 * x86.c - a PC as far as the machine itself is one: chips in the kernel, reset and sleep registers,
 * vCPU state.
 *
 * The chips and the pages KVM needs for itself come before the first vCPU (hard case C6). The ports
 * here are the ones that end a machine; a port nobody owns reads as all ones, which a PC's absent
 * hardware does too. What lies in RAM at the start is x86_boot.c, CPUID is x86_cpuid.c. Threads:
 * main; the port callbacks on vCPUs, without state. Spec: KVM API; ACPI 6.4, 4.8.3.7 (sleep
 * registers); Intel SDM 3, 10.5 (local APIC) and 11.11 (MTRR). Calls: vm.h, bus.h.
 */
#include "arch.h"
#include "log.h"
#include "vm.h"
#include "x86.h"
#include <linux/kvm.h>
#include <sys/ioctl.h>

#define XAPIC_CPUS_MAX 254 /* ids are 8 bits and 255 is everybody (hard case C14) */

#define SLEEP_TYPE_SHIFT 2
#define SLEEP_TYPE_MASK  7
#define SLEEP_ENABLE     0x20
#define ACPI_PORTS       3
#define PORT_POST        0x80

#define MSR_MISC_ENABLE         0x1a0
#define MISC_ENABLE_FAST_STRING 1
#define MSR_MTRR_DEF_TYPE       0x2ff
#define MTRR_ENABLED            (1u << 11)
#define MTRR_TYPE_WB            6

#define APIC_LVT0        0x350
#define APIC_LVT1        0x360
#define APIC_MODE_NMI    (4u << 8)
#define APIC_MODE_EXTINT (7u << 8)

#define FPU_FCW_DEFAULT   0x37f
#define FPU_MXCSR_DEFAULT 0x1f80

uint64_t arch_pci64_base(const struct vm *vm)
{
	const struct mem_region *last = &vm->mem->region[vm->mem->nregions - 1];

	return ALIGN_UP(MAX(last->base + last->len, (uint64_t)MEM_HIGH), GIB(1));
}

/* ---- the vm ---- */

static int vm_fail(const char *what)
{
	int r = -errno;

	log_err("vm: %s: %m", what);
	return r;
}

int arch_vm_init(struct vm *vm)
{
	/* The speaker port 0x61 shows the PIT's output, which kernels poll to calibrate their
	 * clocks. */
	struct kvm_pit_config pit = {.flags = KVM_PIT_SPEAKER_DUMMY};
	uint64_t identity = X86_KVM_PAGES;

	if (vm->ncpus > XAPIC_CPUS_MAX) {
		log_err("vm: %u vCPUs: at most %u", vm->ncpus, XAPIC_CPUS_MAX);
		return -EINVAL;
	}
	if (ioctl(vm->vm_fd, KVM_SET_IDENTITY_MAP_ADDR, &identity) < 0)
		return vm_fail("KVM_SET_IDENTITY_MAP_ADDR");
	if (ioctl(vm->vm_fd, KVM_SET_TSS_ADDR, X86_KVM_PAGES + KIB(4)) < 0)
		return vm_fail("KVM_SET_TSS_ADDR");
	if (ioctl(vm->vm_fd, KVM_CREATE_IRQCHIP, 0) < 0)
		return vm_fail("KVM_CREATE_IRQCHIP");
	if (ioctl(vm->vm_fd, KVM_CREATE_PIT2, &pit) < 0)
		return vm_fail("KVM_CREATE_PIT2");
	return 0;
}

/* ---- ports ---- */

static void read_zero(void *owner, uint64_t off, void *data, unsigned len)
{
	(void)owner;
	(void)off;
	memset(data, 0, len);
}

static void acpi_write_byte(struct vm *vm, uint64_t port, uint8_t v)
{
	unsigned type = v >> SLEEP_TYPE_SHIFT & SLEEP_TYPE_MASK;

	if (port == ARCH_PORT_SLEEP_CONTROL && v & SLEEP_ENABLE && type == ARCH_SLEEP_TYPE_S5)
		vm_set_end(vm, VM_POWEROFF, "ACPI S5");
	if (port == ARCH_PORT_RESET && v == ARCH_RESET_VALUE)
		vm_set_end(vm, VM_RESET, "ACPI reset register");
}

static void acpi_write(void *owner, uint64_t off, const void *data, unsigned len)
{
	const uint8_t *bytes = data;

	for (unsigned i = 0; i < len; i++)
		acpi_write_byte(owner, ARCH_PORT_SLEEP_CONTROL + off + i, bytes[i]);
}

/* A BIOS's progress codes; kernels write here to let a microsecond pass. */
static void post_write(void *owner, uint64_t off, const void *data, unsigned len)
{
	(void)owner;
	(void)off;
	(void)data;
	(void)len;
}

int arch_platform_init(struct vm *vm)
{
	static const struct bus_ops acpi_ops = {.read = read_zero, .write = acpi_write};
	static const struct bus_ops post_ops = {.read = read_zero, .write = post_write};
	const struct bus_range ranges[] = {
		{.base = ARCH_PORT_SLEEP_CONTROL,
		 .len = ACPI_PORTS,
		 .ops = &acpi_ops,
		 .owner = vm,
		 .name = "acpi"},
		{.base = PORT_POST, .len = 1, .ops = &post_ops, .owner = vm, .name = "post"},
	};

	for (unsigned i = 0; i < ARRAY_LEN(ranges); i++) {
		int r = bus_add(&vm->pio, &ranges[i]);

		if (!r)
			continue;
		log_err("vm: port 0x%llx (%s) is taken", (unsigned long long)ranges[i].base,
			ranges[i].name);
		return r;
	}
	return 0;
}

/* ---- vCPUs ---- */

static int vcpu_fail(unsigned id, const char *what)
{
	int r = -errno;

	log_err("vcpu%u: %s: %m", id, what);
	return r;
}

static int msrs_set(int vcpu_fd, unsigned id)
{
	static const struct kvm_msr_entry entries[] = {
		{.index = MSR_MISC_ENABLE, .data = MISC_ENABLE_FAST_STRING},
		/*
		 * Write-back where no MTRR says otherwise (hard case C16). The fixed ranges stay
		 * disabled: they are zero, which is uncached, and would cover the first MiB.
		 */
		{.index = MSR_MTRR_DEF_TYPE, .data = MTRR_ENABLED | MTRR_TYPE_WB},
	};
	union {
		struct kvm_msrs head;
		uint8_t room[sizeof(struct kvm_msrs) + sizeof(entries)];
	} msrs = {.head = {.nmsrs = ARRAY_LEN(entries)}};
	int n;

	memcpy(msrs.head.entries, entries, sizeof(entries));
	/* Returns how many it took: less is the index of the one it refused. */
	n = ioctl(vcpu_fd, KVM_SET_MSRS, &msrs);
	if (n < 0)
		return vcpu_fail(id, "KVM_SET_MSRS");
	if (n < (int)ARRAY_LEN(entries)) {
		log_err("vcpu%u: KVM refuses MSR 0x%x", id, entries[n].index);
		return -EINVAL;
	}
	return 0;
}

static void lapic_store(struct kvm_lapic_state *apic, unsigned reg, uint32_t v)
{
	memcpy(apic->regs + reg, &v, sizeof(v));
}

/* Virtual wire mode, as a BIOS leaves it: the PIC on LINT0, NMIs on LINT1. */
static int lapic_set(int vcpu_fd, unsigned id)
{
	struct kvm_lapic_state apic;

	if (ioctl(vcpu_fd, KVM_GET_LAPIC, &apic) < 0)
		return vcpu_fail(id, "KVM_GET_LAPIC");
	lapic_store(&apic, APIC_LVT0, APIC_MODE_EXTINT);
	lapic_store(&apic, APIC_LVT1, APIC_MODE_NMI);
	if (ioctl(vcpu_fd, KVM_SET_LAPIC, &apic) < 0)
		return vcpu_fail(id, "KVM_SET_LAPIC");
	return 0;
}

static int fpu_set(int vcpu_fd, unsigned id)
{
	struct kvm_fpu fpu = {.fcw = FPU_FCW_DEFAULT, .mxcsr = FPU_MXCSR_DEFAULT};

	if (ioctl(vcpu_fd, KVM_SET_FPU, &fpu) < 0)
		return vcpu_fail(id, "KVM_SET_FPU");
	return 0;
}

int arch_vcpu_init(struct vm *vm, int vcpu_fd, unsigned id, const struct arch_boot *boot)
{
	/* CPUID first: KVM judges MSRs by it (hard case C14). */
	int r = x86_cpuid_set(vm, vcpu_fd, id);

	if (!r)
		r = msrs_set(vcpu_fd, id);
	if (!r)
		r = lapic_set(vcpu_fd, id);
	if (!r)
		r = fpu_set(vcpu_fd, id);
	if (!r && boot)
		r = x86_entry_set(vcpu_fd, boot);
	return r;
}

void arch_vcpu_dump(int vcpu_fd, unsigned id)
{
	struct kvm_regs r;
	struct kvm_sregs s;

	if (ioctl(vcpu_fd, KVM_GET_REGS, &r) < 0 || ioctl(vcpu_fd, KVM_GET_SREGS, &s) < 0) {
		log_err("vcpu%u: registers cannot be read: %m", id);
		return;
	}
	log_warn("vcpu%u: rip %04x:%llx rflags %llx rsp %llx rax %llx rbx %llx rcx %llx rdx %llx "
		 "rsi %llx rdi %llx rbp %llx cr0 %llx cr2 %llx cr3 %llx cr4 %llx efer %llx",
		 id, s.cs.selector, r.rip, r.rflags, r.rsp, r.rax, r.rbx, r.rcx, r.rdx, r.rsi,
		 r.rdi, r.rbp, s.cr0, s.cr2, s.cr3, s.cr4, s.efer);
}
