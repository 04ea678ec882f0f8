// SPDX-License-Identifier: Apache-2.0
/*
 * t_vcpu.c - vCPUs in a real KVM, with guests of a few instructions: how exits reach the buses, how
 * a machine ends, that kicks are never lost, and that interrupts and doorbells pass without an
 * exit.
 *
 * A guest talks through port 0x500, which the test reads as a pipe.
 */
#include "../vmm/vcpu.h"
#include "../vmm/arch.h"
#include "../vmm/sandbox.h"
#include "../vmm/vm.h"
#include "tap.h"
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>

#define CODE       0x100000
#define STRING     0x110000
#define IDT        0x111000
#define AP_CODE    0x8000
#define PORT_TEST  0x500
#define MMIO_TEST  0xd0000000
#define MMIO_VALUE 0x1122334455667788
#define DOORBELL   0xd0001000
#define WAIT_MS    10000

/* What all guests are made of; each is copied to CODE and runs from its first byte in flat 32-bit
 * mode, or in 64. */
#define GUEST(name, bits, body)                                                        \
	asm(".pushsection .rodata\n.balign 32\n.code" bits "\n" #name ":\n" body #name \
	    "_end:\n.code64\n.popsection\n");                                          \
	extern const uint8_t name[], name##_end[]

#define SAY(letter)   "mov $0x500, %edx\n mov $" letter ", %eax\n out %al, (%dx)\n"
#define OUTB(port, v) "mov $" port ", %edx\n mov $" v ", %eax\n out %al, (%dx)\n"
#define POWEROFF      OUTB("0x600", "0x34") /* SLP_EN, type 5 */
#define FOREVER       "9: hlt\n jmp 9b\n"

/* clang-format off */
GUEST(guest_hello, "32",
      "mov $0x110000, %esi\n mov $5, %ecx\n mov $0x500, %edx\n cld\n rep outsb\n"
      POWEROFF
      /* Never said: the vCPU must not come back after the exit that ended the machine. */
      SAY("'!'") FOREVER);
GUEST(guest_mmio, "32",
      "mov 0xd0000000, %eax\n mov %eax, 0xd0000008\n movb $0x5a, 0xd0000010\n"
      POWEROFF FOREVER);
GUEST(guest_unknown, "32",
      "mov $0x1234, %edx\n in (%dx), %eax\n cmp $0xffffffff, %eax\n jne 1f\n"
      "mov $0x5678, %eax\n out %eax, (%dx)\n"
      "mov 0xd8000000, %eax\n cmp $0xffffffff, %eax\n jne 1f\n movl $1, 0xd8000000\n"
      SAY("'y'") "1:\n"
      POWEROFF FOREVER);
GUEST(guest_reset, "32",
      OUTB("0x602", "1") FOREVER);
GUEST(guest_no_sleep, "32",
      /* SLP_EN with another type, type 5 without SLP_EN, another reset value: nothing happens. */
      OUTB("0x600", "0x20") OUTB("0x600", "0x14") OUTB("0x602", "2")
      "mov $0x600, %edx\n in (%dx), %al\n test %al, %al\n jne 1f\n"
      OUTB("0x80", "0x55")
      SAY("'y'") "1:\n"
      POWEROFF FOREVER);
GUEST(guest_triple, "32",
      "push $0\n push $0\n lidt (%esp)\n ud2\n" FOREVER);
GUEST(guest_nowhere, "32",
      "mov $0xd8000000, %eax\n jmp *%eax\n");
GUEST(guest_spin, "32",
      "1: jmp 1b\n");
GUEST(guest_spin_io, "32",
      "mov $0x1234, %edx\n 1: in (%dx), %al\n jmp 1b\n");
GUEST(guest_doorbell, "32",
      "movl $7, 0xd0001000\n movw $7, 0xd0001000\n movl $7, 0xd0001004\n"
      POWEROFF FOREVER);
GUEST(guest_interrupts, "32",
      "lidt 0x111ff8\n"
      OUTB("0x21", "0xff") OUTB("0xa1", "0xff")		    /* PICs off */
      "movl $0x1ff, 0xfee000f0\n"			    /* local APIC on */
      "movl $0x1a, 0xfec00000\n movl $0x42, 0xfec00010\n"   /* IOAPIC pin 5: edge, vector 0x42 */
      "movl $0x24, 0xfec00000\n movl $0x8043, 0xfec00010\n" /* pin 10: level, vector 0x43 */
      SAY("'R'")
      "8: sti\n hlt\n jmp 8b\n"
      /* A software KVM emulates this code and has no iret: handlers go back by a jump. */
      ".irp v, 0x40, 0x41, 0x42, 0x43\n"
      ".balign 32\n mov $0x8ff0, %esp\n" SAY("\\v") "movl $0, 0xfee000b0\n jmp 8b\n"
      ".endr\n");
GUEST(guest_smp, "32",
      "movl $0x1ff, 0xfee000f0\n"
      "movl $0xc4500, 0xfee00300\n" /* INIT to all but self */
      "movl $0xc4608, 0xfee00300\n" /* start-up at 0x8000 */
      FOREVER);
GUEST(guest_ap, "16",
      "mov $0x500, %dx\n mov $'A', %al\n out %al, (%dx)\n" FOREVER);
GUEST(guest_long, "64",
      /* The GDT in RAM holds the selectors of the boot protocol. */
      "mov $0x18, %eax\n mov %eax, %ds\n mov %eax, %es\n mov %eax, %ss\n"
      "push $0x10\n lea 2f(%rip), %rax\n push %rax\n lretq\n 2:\n"
      "cmp $0x7000, %rsi\n jne 1f\n"
      "cmpl $0x53726448, 0x202(%rsi)\n jne 1f\n" /* the header's magic */
      "mov $0xd0000000, %edi\n movabs $0x1122334455667788, %rax\n"
      "cmp %rax, (%rdi)\n jne 1f\n mov %rax, 8(%rdi)\n"
      SAY("'y'") "1:\n"
      POWEROFF FOREVER);
/* clang-format on */

/* ---- the machine around them ---- */

struct machine {
	struct vm *vm;
	struct vcpus *vcpus;
	int said[2];        /* pipe: what the guest wrote to the test port */
	unsigned doorbells; /* writes that came by exit */
	uint64_t mmio[2];
	struct irq *lower; /* lowered when the guest says 0x43 */
};

static void port_read(void *owner, uint64_t off, void *data, unsigned len)
{
	(void)owner;
	(void)off;
	memset(data, 0, len);
}

static void port_write(void *owner, uint64_t off, const void *data, unsigned len)
{
	struct machine *m = owner;

	(void)off;
	if (m->lower && *(const uint8_t *)data == 0x43)
		irq_set_level(m->lower, false);
	need(write(m->said[1], data, len) == (ssize_t)len);
}

static void mmio_read(void *owner, uint64_t off, void *data, unsigned len)
{
	(void)owner;
	bus_store(data, len, off == 0 ? MMIO_VALUE : 0);
}

static void mmio_write(void *owner, uint64_t off, const void *data, unsigned len)
{
	struct machine *m = owner;

	if (off == 8 || off == 16)
		m->mmio[off / 8 - 1] = bus_load(data, len) | (uint64_t)len << 32;
	if (off == 8 && len == 8)
		m->mmio[0] = bus_load(data, len);
}

static void doorbell_write(void *owner, uint64_t off, const void *data, unsigned len)
{
	struct machine *m = owner;

	(void)off;
	(void)data;
	(void)len;
	m->doorbells++;
}

static void machine_buses(struct machine *m)
{
	static const struct bus_ops port_ops = {port_read, port_write};
	static const struct bus_ops mmio_ops = {mmio_read, mmio_write};
	static const struct bus_ops doorbell_ops = {mmio_read, doorbell_write};

	need(arch_platform_init(m->vm) == 0);
	need(bus_add(&m->vm->pio, &(struct bus_range){.base = PORT_TEST,
						      .len = 1,
						      .ops = &port_ops,
						      .owner = m,
						      .name = "test"}) == 0);
	need(bus_add(&m->vm->mmio, &(struct bus_range){.base = MMIO_TEST,
						       .len = 0x20,
						       .ops = &mmio_ops,
						       .owner = m,
						       .name = "test"}) == 0);
	need(bus_add(&m->vm->mmio, &(struct bus_range){.base = DOORBELL,
						       .len = 0x20,
						       .ops = &doorbell_ops,
						       .owner = m,
						       .name = "doorbell"}) == 0);
}

#define GUEST_OF(name) name, (size_t)(name##_end - name)

/* Everything but the start of its threads. */
static void machine_init(struct machine *m, unsigned ncpus, enum arch_entry entry,
			 const uint8_t *code, size_t len)
{
	const struct vm_params params = {
		.mem_size = MIB(4), .pages = MEM_PAGES_SMALL, .ncpus = ncpus};
	struct arch_boot boot = {.entry = entry, .entry_addr = CODE};

	*m = (struct machine){.said = {-1, -1}};
	need(pipe(m->said) == 0);
	need(vm_create(&m->vm, &params) == 0);
	machine_buses(m);
	need(mem_write(m->vm->mem, GPA(CODE), code, len) == 0);
	need(mem_write(m->vm->mem, GPA(STRING), "hello", 5) == 0);
	need(arch_boot_write(m->vm, &boot) == 0);
	need(vcpus_create(&m->vcpus, m->vm, &boot) == 0);
}

static void machine_fini(struct machine *m)
{
	vcpus_destroy(m->vcpus);
	vm_destroy(m->vm);
	close_fd(&m->said[0]);
	close_fd(&m->said[1]);
}

static enum vm_end machine_wait(struct machine *m)
{
	struct pollfd p = {.fd = m->vm->end_fd, .events = POLLIN};

	poll(&p, 1, WAIT_MS);
	return vm_get_end(m->vm);
}

/* Starts it and waits for its end; the threads have ended too. */
static enum vm_end machine_run(struct machine *m)
{
	enum vm_end end;

	need(vcpus_start(m->vcpus) == 0);
	end = machine_wait(m);
	vcpus_stop(m->vcpus);
	return end;
}

/* The next byte the guest says, or -1. */
static int machine_hear(struct machine *m)
{
	struct pollfd p = {.fd = m->said[0], .events = POLLIN};
	uint8_t byte = 0;

	if (poll(&p, 1, WAIT_MS) != 1 || read(m->said[0], &byte, 1) != 1)
		return -1;
	return byte;
}

static bool machine_is_silent(struct machine *m)
{
	struct pollfd p = {.fd = m->said[0], .events = POLLIN};

	return poll(&p, 1, 0) == 0;
}

/* ---- exits ---- */

static void test_string_io(void)
{
	struct machine m;
	char said[6] = "";

	machine_init(&m, 1, ARCH_ENTRY_PVH32, GUEST_OF(guest_hello));
	is(machine_run(&m), VM_POWEROFF, "SLP_EN with type S5 is a power-off");
	is(strcmp(m.vm->end_detail, "ACPI S5"), 0, "and says why");
	ok(read(m.said[0], said, 5) == 5 && strcmp(said, "hello") == 0,
	   "rep outsb delivers every byte");
	ok(machine_is_silent(&m), "the vCPU that ended the machine does not run on");
	machine_fini(&m);
}

static void test_mmio(void)
{
	struct machine m;

	machine_init(&m, 1, ARCH_ENTRY_PVH32, GUEST_OF(guest_mmio));
	is(machine_run(&m), VM_POWEROFF, "a guest reads and writes MMIO");
	is(m.mmio[0], 4ull << 32 | (uint32_t)MMIO_VALUE, "four bytes arrive as they were read");
	is(m.mmio[1], 1ull << 32 | 0x5a, "and one byte");
	machine_fini(&m);
}

/* Hard case B19. */
static void test_unknown(void)
{
	struct machine m;

	machine_init(&m, 1, ARCH_ENTRY_PVH32, GUEST_OF(guest_unknown));
	is(machine_run(&m), VM_POWEROFF, "ports and addresses of nobody harm nobody");
	is(machine_hear(&m), 'y', "and read all ones");
	machine_fini(&m);
}

static void test_long_mode(void)
{
	struct machine m;

	machine_init(&m, 1, ARCH_ENTRY_LINUX64, GUEST_OF(guest_long));
	is(machine_run(&m), VM_POWEROFF, "the 64-bit entry runs in long mode");
	ok(!machine_is_silent(&m) && machine_hear(&m) == 'y',
	   "with the GDT, the zero page and the page tables of the boot protocol");
	is(m.mmio[0], MMIO_VALUE, "eight bytes of MMIO are one access");
	machine_fini(&m);
}

/* ---- ends ---- */

static void test_ends(void)
{
	struct machine m;

	machine_init(&m, 1, ARCH_ENTRY_PVH32, GUEST_OF(guest_reset));
	is(machine_run(&m), VM_RESET, "the reset register is a reset");
	machine_fini(&m);

	machine_init(&m, 2, ARCH_ENTRY_PVH32, GUEST_OF(guest_triple));
	is(machine_run(&m), VM_TRIPLE_FAULT, "a triple fault is a triple fault");
	ok(strstr(m.vm->end_detail, "vcpu0"), "and names its vCPU");
	machine_fini(&m);

	/* Hard case C23. */
	machine_init(&m, 1, ARCH_ENTRY_PVH32, GUEST_OF(guest_nowhere));
	is(machine_run(&m), VM_ERROR, "a guest that runs where no memory is ends with an error");
	ok(strstr(m.vm->end_detail, "vcpu0: KVM"), "that says what KVM said");
	machine_fini(&m);

	machine_init(&m, 1, ARCH_ENTRY_PVH32, GUEST_OF(guest_no_sleep));
	is(machine_run(&m), VM_POWEROFF,
	   "other values of the sleep and reset registers end nothing");
	is(machine_hear(&m), 'y', "the status reads as zero, the POST port takes anything");
	machine_fini(&m);
}

/* ---- threads ---- */

static void test_smp(void)
{
	struct machine m;
	unsigned up = 0;

	machine_init(&m, 4, ARCH_ENTRY_PVH32, GUEST_OF(guest_smp));
	need(mem_write(m.vm->mem, GPA(AP_CODE), guest_ap, (size_t)(guest_ap_end - guest_ap)) == 0);
	need(vcpus_start(m.vcpus) == 0);
	while (up < 3 && machine_hear(&m) == 'A')
		up++;
	is(up, 3, "the guest starts its three other vCPUs");
	is(raise(SIGRTMIN), 0, "a kick that hits a thread without a vCPU means nothing");
	vm_set_end(m.vm, VM_USER, NULL);
	vcpus_stop(m.vcpus);
	vcpus_stop(m.vcpus);
	is(vm_get_end(m.vm), VM_USER, "halted vCPUs are stopped from outside, twice if need be");
	machine_fini(&m);
}

static void test_many(void)
{
	struct machine m;

	machine_init(&m, 32, ARCH_ENTRY_PVH32, GUEST_OF(guest_spin));
	need(vcpus_start(m.vcpus) == 0);
	machine_fini(&m);
	ok(1, "32 vCPUs are stopped by destroying them at once");

	machine_init(&m, 2, ARCH_ENTRY_PVH32, GUEST_OF(guest_spin));
	vcpus_stop(m.vcpus);
	machine_fini(&m);
	ok(1, "vCPUs that never ran can be stopped");
}

/* Hard cases C1, C4, C5: the kick lands anywhere between the thread's first step and KVM_RUN. */
static void test_stop_races(void)
{
	unsigned n = 0;

	for (; n < 200; n++) {
		struct machine m;

		machine_init(&m, 4, ARCH_ENTRY_PVH32, n % 2 ? guest_spin_io : guest_spin,
			     n % 2 ? (size_t)(guest_spin_io_end - guest_spin_io)
				   : (size_t)(guest_spin_end - guest_spin));
		need(vcpus_start(m.vcpus) == 0);
		/* From at once to when the guest runs. */
		for (unsigned i = 0; i < n % 50; i++)
			sched_yield();
		vcpus_stop(m.vcpus);
		need(vm_get_end(m.vm) == VM_RUNNING);
		machine_fini(&m);
	}
	is(n, 200, "200 machines of 4 vCPUs stop at any moment after their start");
}

/* ---- around the exits ---- */

static void test_doorbell(void)
{
	struct machine m;
	eventfd_t n = 0;
	int fd = eventfd(0, EFD_NONBLOCK), any = eventfd(0, EFD_NONBLOCK);

	need(fd >= 0 && any >= 0);
	machine_init(&m, 1, ARCH_ENTRY_PVH32, GUEST_OF(guest_doorbell));
	need(vm_doorbell_add(m.vm, DOORBELL, 4, fd) == 0);
	need(vm_doorbell_add(m.vm, DOORBELL + 4, 0, any) == 0);
	is(machine_run(&m), VM_POWEROFF, "a guest rings its doorbells");
	ok(eventfd_read(fd, &n) == 0 && n == 1, "a write of the right length signals the eventfd");
	ok(eventfd_read(any, &n) == 0 && n == 1,
	   "so does one of any length where that is asked for");
	is(m.doorbells, 1, "only the write of another length reaches the bus");
	machine_fini(&m);

	machine_init(&m, 1, ARCH_ENTRY_PVH32, GUEST_OF(guest_doorbell));
	need(vm_doorbell_add(m.vm, DOORBELL, 4, fd) == 0);
	vm_doorbell_del(m.vm, DOORBELL, 4, fd);
	is(machine_run(&m), VM_POWEROFF, "and one that was taken away");
	is(m.doorbells, 3, "reaches the bus");
	ok(eventfd_read(fd, &n) < 0, "and not the eventfd");
	machine_fini(&m);
	close_fd(&fd);
	close_fd(&any);
}

/* Gates of vectors 0x40 to 0x43, whose handlers are 32 bytes apart, and what lidt wants, at the
 * page's end. */
static void write_idt(struct machine *m)
{
	const struct {
		uint16_t limit;
		uint32_t base;
	} __attribute__((packed)) idtr = {0x44 * 8 - 1, IDT};
	uint32_t first = ALIGN_UP((uint32_t)(guest_interrupts_end - guest_interrupts), 32) - 4 * 32;

	for (uint32_t i = 0; i < 4; i++) {
		uint32_t handler = CODE + first + 32 * i;
		uint64_t gate = (handler & 0xffff) | 0x10u << 16 | 0x8e00ull << 32 |
				(uint64_t)(handler >> 16) << 48;

		need(mem_write(m->vm->mem, GPA(IDT + (0x40 + i) * 8), &gate, sizeof(gate)) == 0);
	}
	need(mem_write(m->vm->mem, GPA(IDT + 0xff8), &idtr, sizeof(idtr)) == 0);
}

static void test_interrupts(void)
{
	struct machine m;
	struct irq msi, edge, level;
	int heard;

	machine_init(&m, 1, ARCH_ENTRY_PVH32, GUEST_OF(guest_interrupts));
	write_idt(&m);
	need(irq_msi_init(&msi, m.vm) == 0);
	need(irq_edge_init(&edge, m.vm, 5) == 0);
	need(irq_level_init(&level, m.vm, 10) == 0);
	m.lower = &level;
	irq_raise(&msi);
	need(vcpus_start(m.vcpus) == 0);
	is(machine_hear(&m), 'R', "a guest waits for interrupts");

	is(irq_msi_route(&msi, 0xfee00000, 0x40), 0, "an MSI gets a route while it runs");
	irq_raise(&msi);
	is(machine_hear(&m), 0x40, "and arrives");
	is(irq_msi_route(&msi, 0xfee00000, 0x41), 0, "the route changes");
	irq_raise(&msi);
	is(machine_hear(&m), 0x41, "and the next one follows it");
	irq_raise(&edge);
	is(machine_hear(&m), 0x42, "an edge arrives by its pin");
	irq_set_level(&level, true);
	is(machine_hear(&m), 0x43, "so does a level, which the handler's vCPU lowers");
	irq_raise(&edge);
	heard = machine_hear(&m);
	/* A software KVM may inject a level's vector once more although its IOAPIC has it low. */
	if (heard == 0x43)
		heard = machine_hear(&m);
	is(heard, 0x42, "and stays low, so that the next interrupt gets through");
	irq_fini(&msi);
	need(irq_msi_init(&msi, m.vm) == 0);
	is(irq_msi_route(&msi, 0xfee00000, 0x40), 0, "a route is given back and taken again");
	irq_raise(&msi);
	is(machine_hear(&m), 0x40, "and works");

	vcpus_stop(m.vcpus);
	ok(machine_is_silent(&m), "nothing came twice");
	irq_fini(&msi);
	irq_fini(&edge);
	irq_fini(&level);
	machine_fini(&m);
}

static void test_refusals(void)
{
	const struct vm_params params = {
		.mem_size = MIB(2), .ncpus = 1, .cpu_mask = "aes,nonsense"};
	struct vcpus *vcpus = NULL;
	struct vm *vm = NULL;

	need(vm_create(&vm, &params) == 0);
	is(vcpus_create(&vcpus, vm, NULL), -EINVAL, "an unknown CPU feature is refused");
	ok(vcpus == NULL, "and nothing is made");
	vm_destroy(vm);
}

int main(void)
{
	if (access("/dev/kvm", R_OK | W_OK) != 0) {
		skip("no /dev/kvm", "vCPUs");
		return done();
	}
	need(sandbox_init() == 0);
	test_string_io();
	test_mmio();
	test_unknown();
	test_long_mode();
	test_ends();
	test_smp();
	test_many();
	test_doorbell();
	test_interrupts();
	test_refusals();
	test_stop_races();
	return done();
}
