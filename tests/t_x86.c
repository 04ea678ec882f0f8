// SPDX-License-Identifier: Apache-2.0
/*
 * t_x86.c - what a kernel finds: the memory map, the zero page, PVH's start info, and each vCPU's
 * CPUID.
 *
 * The RAM part runs on a vm without KVM and reads the bytes by the offsets of the protocols, not by
 * our structs.
 */
#include "../vmm/arch.h"
#include "../vmm/vm.h"
#include "../vmm/x86.h"
#include "tap.h"
#include <linux/kvm.h>
#include <sys/ioctl.h>

#define ZERO_PAGE  0x7000
#define START_INFO 0x6000

static struct vm *bare(uint64_t mem_size, unsigned ncpus)
{
	const struct vm_params params = {
		.mem_size = mem_size, .pages = MEM_PAGES_SMALL, .ncpus = ncpus};
	struct vm *vm = NULL;

	need(vm_create_bare(&vm, &params) == 0);
	return vm;
}

static uint64_t peek(const struct vm *vm, uint64_t addr, unsigned len)
{
	uint64_t v = 0;

	need(mem_read(vm->mem, GPA(addr), &v, len) == 0);
	return v;
}

static bool has_bytes(const struct vm *vm, uint64_t addr, const char *s)
{
	char got[64] = "";

	need(strlen(s) < sizeof(got) && mem_read(vm->mem, GPA(addr), got, strlen(s)) == 0);
	return memcmp(got, s, strlen(s)) == 0;
}

/* The sum of all entries of a type in the zero page's map, and whether they are sorted and do not
 * overlap. */
static uint64_t e820_sum(const struct vm *vm, uint32_t type, bool *sorted)
{
	unsigned n = (unsigned)peek(vm, ZERO_PAGE + 0x1e8, 1);
	uint64_t sum = 0, end = 0;

	*sorted = true;
	for (unsigned i = 0; i < n; i++) {
		uint64_t entry = ZERO_PAGE + 0x2d0 + 20 * i;
		uint64_t addr = peek(vm, entry, 8), size = peek(vm, entry + 8, 8);

		*sorted = *sorted && addr >= end && size > 0;
		end = addr + size;
		if (peek(vm, entry + 16, 4) == type)
			sum += size;
	}
	return sum;
}

/* Hard case C7. */
static void test_memory_map(void)
{
	static const uint64_t sizes[] = {MIB(128),  MIB(3071), MIB(3072),
					 MIB(3330), MIB(4096), MIB(8192)};
	const uint64_t hidden = MIB(1) - 0x9fc00;

	for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
		struct arch_boot boot = {.entry = ARCH_ENTRY_LINUX64};
		struct vm *vm = bare(sizes[i], 1);
		bool sorted = false;

		need(arch_boot_write(vm, &boot) == 0);
		is(e820_sum(vm, 1, &sorted), sizes[i] - hidden,
		   "of %llu MiB all but the first MiB's end is usable RAM",
		   (unsigned long long)(sizes[i] >> 20));
		ok(sorted, "its map is sorted, without overlaps");
		vm_destroy(vm);
	}
}

static void test_reserved(void)
{
	struct arch_boot boot = {.entry = ARCH_ENTRY_LINUX64};
	struct vm *vm = bare(MIB(128), 1);
	uint64_t without_pci, with_pci;
	bool sorted = false;

	need(arch_boot_write(vm, &boot) == 0);
	without_pci = e820_sum(vm, 2, &sorted);
	vm->has_pci = true;
	need(arch_boot_write(vm, &boot) == 0);
	with_pci = e820_sum(vm, 2, &sorted);
	is(with_pci - without_pci, ARCH_ECAM_SIZE, "PCI's configuration space is reserved");
	is(without_pci, MIB(1) - 0x9fc00 + X86_KVM_PAGES_SIZE,
	   "so are the BIOS area and KVM's pages");
	is(arch_pci64_base(vm), GIB(4), "the 64-bit window of a small vm begins at 4 GiB");
	vm_destroy(vm);
}

static void test_elf64(void)
{
	struct arch_boot boot = {
		.entry = ARCH_ENTRY_LINUX64, .initrd_addr = 0x7000000, .initrd_size = 0x1234};
	struct vm *vm = bare(MIB(128), 4);
	const uint64_t zp = ZERO_PAGE;

	strcpy(boot.cmdline, "console=ttyS0");
	need(arch_boot_write(vm, &boot) == 0);
	is(peek(vm, zp + 0x1fe, 2), 0xaa55, "an ELF kernel gets a header of ours: boot flag,");
	is(peek(vm, zp + 0x202, 4), 0x53726448, "magic,");
	is(peek(vm, zp + 0x210, 1), 0xff, "type of loader,");
	is(peek(vm, zp + 0x228, 4), 0x20000, "command line,");
	is(peek(vm, zp + 0x218, 4), 0x7000000, "initrd's address,");
	is(peek(vm, zp + 0x21c, 4), 0x1234, "and size");
	is(peek(vm, zp + 0x70, 8), 0xe0000, "the RSDP is named");
	ok(has_bytes(vm, 0xe0000, "RSD PTR "), "and is there");
	ok(has_bytes(vm, 0xf0000, "_MP_"), "the MP table is where kernels look");
	ok(has_bytes(vm, 0x20000, "console=ttyS0"), "the command line is at its address");
	is(peek(vm, 0x20000 + strlen("console=ttyS0"), 1), 0, "and ends");
	is(peek(vm, 0x9000, 8), 0xa003, "the page tables have a root");
	is(peek(vm, 0xe000 + 511 * 8, 8), 0xffe00083, "and map the last 2 MiB below 4 GiB");
	vm_destroy(vm);
}

/* Hard case C10. */
static void test_bzimage(void)
{
	struct arch_boot boot = {.entry = ARCH_ENTRY_LINUX64, .setup_header_len = 0x77};
	struct vm *vm = bare(MIB(128), 1);

	memset(boot.setup_header, 0xee, boot.setup_header_len);
	need(arch_boot_write(vm, &boot) == 0);
	is(peek(vm, ZERO_PAGE + 0x1f0, 2), 0xee00,
	   "the image's header begins at 0x1f1, not before");
	is(peek(vm, ZERO_PAGE + 0x1f1 + 0x76, 2), 0x00ee, "and ends where the image says");
	is(peek(vm, ZERO_PAGE + 0x1ef, 1), 0, "the sentinel is zero");
	is(peek(vm, ZERO_PAGE + 0x210, 1), 0xff, "the loader's own fields are set");
	is(peek(vm, ZERO_PAGE + 0x218, 4), 0, "without an initrd its fields are zero");
	vm_destroy(vm);
}

static void test_pvh(void)
{
	struct arch_boot boot = {
		.entry = ARCH_ENTRY_PVH32, .initrd_addr = 0x7000000, .initrd_size = 0x1234};
	struct vm *vm = bare(GIB(5), 1);
	const uint64_t si = START_INFO;
	uint64_t map;
	unsigned n;

	need(arch_boot_write(vm, &boot) == 0);
	is(peek(vm, si, 4), 0x336ec578, "PVH's start info has its magic");
	is(peek(vm, si + 4, 4), 1, "and version");
	is(peek(vm, si + 12, 4), 1, "one module");
	is(peek(vm, peek(vm, si + 16, 8), 8), 0x7000000, "is the initrd");
	is(peek(vm, si + 24, 8), 0x20000, "the command line is named");
	is(peek(vm, si + 32, 8), 0xe0000, "the RSDP too");
	map = peek(vm, si + 40, 8);
	n = (unsigned)peek(vm, si + 48, 4);
	ok(n > 0 && peek(vm, map + 24 * (n - 1), 8) == GIB(4) &&
		   peek(vm, map + 24 * (n - 1) + 8, 8) == GIB(2),
	   "the memory map ends with the RAM above 4 GiB");
	boot.initrd_size = 0;
	need(arch_boot_write(vm, &boot) == 0);
	is(peek(vm, si + 12, 4), 0, "without an initrd there is no module");
	vm_destroy(vm);
}

static void test_too_small(void)
{
	struct arch_boot boot = {.entry = ARCH_ENTRY_LINUX64};
	struct vm *vm = bare(KIB(512), 1);

	is(arch_boot_write(vm, &boot), -ENOMEM, "half a MiB of RAM is refused");
	vm_destroy(vm);
}

/* ---- CPUID ---- */

#define CPUID_MAX 256
union cpuid {
	struct kvm_cpuid2 list;
	uint8_t room[sizeof(struct kvm_cpuid2) + CPUID_MAX * sizeof(struct kvm_cpuid_entry2)];
};

static void cpuid_of(struct vm *vm, unsigned id, union cpuid *c)
{
	int fd = ioctl(vm->vm_fd, KVM_CREATE_VCPU, id);

	need(fd >= 0);
	need(arch_vcpu_init(vm, fd, id, NULL) == 0);
	memset(c, 0, sizeof(*c));
	c->list.nent = CPUID_MAX;
	need(ioctl(fd, KVM_GET_CPUID2, c) == 0);
	close(fd);
}

static struct kvm_cpuid_entry2 leaf(const union cpuid *c, uint32_t function, uint32_t index)
{
	for (uint32_t i = 0; i < c->list.nent; i++)
		if (c->list.entries[i].function == function && c->list.entries[i].index == index)
			return c->list.entries[i];
	return (struct kvm_cpuid_entry2){.function = function};
}

/* Hard case C14. */
static void test_topology(struct vm *vm, unsigned id)
{
	union cpuid c;

	cpuid_of(vm, id, &c);
	is(leaf(&c, 1, 0).ebx >> 24, id, "leaf 1 of vCPU %u has its APIC id", id);
	is(leaf(&c, 1, 0).ebx >> 16 & 0xff, 8, "and eight ids for the package of six");
	ok(leaf(&c, 1, 0).ecx & 1u << 31, "the hypervisor bit is set");
	ok(leaf(&c, 1, 0).edx & 1u << 28, "and the one of many processors");
	is(leaf(&c, 0xb, 0).edx, id, "leaf 0xb has it too");
	ok((leaf(&c, 0xb, 0).ecx & 0xff00) == 0x100 && leaf(&c, 0xb, 0).ebx == 1 &&
		   leaf(&c, 0xb, 0).eax == 0,
	   "one thread in a core");
	ok((leaf(&c, 0xb, 1).ecx & 0xff00) == 0x200 && leaf(&c, 0xb, 1).ebx == 6 &&
		   leaf(&c, 0xb, 1).eax == 3,
	   "six cores in the package");
	is(leaf(&c, 0xb, 2).ecx & 0xff00, 0, "and no further level");
	is(leaf(&c, 0x1f, 0).ebx, 0, "leaf 0x1f is not the host's");
	if (leaf(&c, 0, 0).ebx != 0x68747541) {
		skip("not an AMD processor", "AMD's topology leaves");
		return;
	}
	is(leaf(&c, 0x80000008, 0).ecx, 5 | 3 << 12, "AMD's core count is six, in three bits");
	is(leaf(&c, 0x8000001e, 0).eax, id, "AMD's extended APIC id is the same");
	is(leaf(&c, 0x8000001d, 0).eax >> 14 & 0xfff, 0, "no other core shares the first cache");
}

static void test_clock(struct vm *vm)
{
	union cpuid c;

	cpuid_of(vm, 1, &c);
	if (!leaf(&c, 0x40000010, 0).eax) {
		skip("this KVM does not tell the TSC's frequency", "the clock leaf");
		return;
	}
	is(leaf(&c, 0x40000000, 0).eax, 0x40000010,
	   "the clock leaf is within the hypervisor's range");
	is(leaf(&c, 0x40000010, 0).ebx, 1000000, "the APIC timer runs at 1 GHz");
	ok(leaf(&c, 0x40000001, 0).eax & 1 << 3, "kvmclock is still offered");
}

static void test_cpu_mask(void)
{
	struct vm_params params = {.mem_size = MIB(2), .ncpus = 1, .cpu_mask = "cx16,,rdtscp,"};
	struct vm *vm = NULL;
	union cpuid c;

	need(vm_create(&vm, &params) == 0);
	cpuid_of(vm, 0, &c);
	is(leaf(&c, 1, 0).ecx & 1 << 13, 0, "a masked feature of leaf 1 is gone");
	is(leaf(&c, 0x80000001, 0).edx & 1 << 27, 0, "and one of AMD's leaf");
	ok(leaf(&c, 1, 0).ecx & 1u << 31, "others stay");
	is(leaf(&c, 1, 0).ebx >> 16 & 0xff, 1, "a single processor has one id");
	vm_destroy(vm);
}

static void test_cpuid(void)
{
	const struct vm_params params = {.mem_size = MIB(2), .ncpus = 6};
	struct vm *vm = NULL;

	need(vm_create(&vm, &params) == 0);
	test_topology(vm, 0);
	test_topology(vm, 5);
	test_clock(vm);
	vm_destroy(vm);
	test_cpu_mask();
}

int main(void)
{
	test_memory_map();
	test_reserved();
	test_elf64();
	test_bzimage();
	test_pvh();
	test_too_small();
	if (access("/dev/kvm", R_OK | W_OK) == 0)
		test_cpuid();
	else
		skip("no /dev/kvm", "CPUID");
	return done();
}
