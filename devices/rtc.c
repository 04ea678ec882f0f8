// SPDX-License-Identifier: Apache-2.0
/*
 * rtc.c - the PC's CMOS clock at ports 0x70 and 0x71: the time of day in UTC, and nothing else.
 *
 * The time is the host's: what a guest sets is not kept, and alarms and periodic interrupts never
 * come. All other bytes are memory that starts as zero. A guest looks at the clock once at boot; a
 * missing one costs it a second (C17). Called by vCPUs, under the device's lock.
 * Spec: Motorola MC146818A; the century byte where PCs have it.
 */
#include "table.h"
#include "../vmm/log.h"
#include "../vmm/vm.h"
#include <pthread.h>
#include <time.h>

#define RTC_PORT  0x70 /* index, then data */
#define RTC_BYTES 128
#define RTC_GSI   8

enum {
	RTC_SECONDS = 0x00,
	RTC_MINUTES = 0x02,
	RTC_HOURS = 0x04,
	RTC_WEEKDAY = 0x06,
	RTC_DAY = 0x07,
	RTC_MONTH = 0x08,
	RTC_YEAR = 0x09,
	RTC_A = 0x0a,
	RTC_B = 0x0b,
	RTC_C = 0x0c,
	RTC_D = 0x0d,
	RTC_CENTURY = 0x32,
};
#define RTC_A_RUNNING 0x26 /* 32 kHz crystal, 1024 Hz rate; never an update in progress */
#define RTC_B_24H     0x02
#define RTC_B_BINARY  0x04
#define RTC_D_VALID   0x80

struct rtc {
	struct device base;
	struct vm *vm;        /* borrowed */
	pthread_mutex_t lock; /* what follows; a leaf */
	uint8_t index;
	uint8_t ram[RTC_BYTES];
	time_t shown; /* when now was taken */
	struct tm now;
};

/*
 * A guest reads the time byte by byte: all of them have to be of one moment, the one at which it
 * began, which is with the seconds or with register A.
 */
static void take_time(struct rtc *rtc)
{
	struct timespec ts;
	time_t t;

	/* Not time(): without a vDSO that is a system call of its own, which no filter has. */
	clock_gettime(CLOCK_REALTIME, &ts);
	t = ts.tv_sec;

	if (rtc->index != RTC_SECONDS && rtc->index != RTC_A && t - rtc->shown <= 1)
		return;
	rtc->shown = t;
	gmtime_r(&t, &rtc->now);
}

static uint8_t coded(const struct rtc *rtc, int n)
{
	if (rtc->ram[RTC_B] & RTC_B_BINARY)
		return (uint8_t)n;
	return (uint8_t)(n / 10 << 4 | n % 10);
}

static uint8_t rtc_get(struct rtc *rtc)
{
	const struct tm *now = &rtc->now;

	take_time(rtc);
	switch (rtc->index) {
	case RTC_SECONDS:
		return coded(rtc, MIN(now->tm_sec, 59)); /* a leap second would be refused */
	case RTC_MINUTES:
		return coded(rtc, now->tm_min);
	case RTC_HOURS:
		return coded(rtc, now->tm_hour);
	case RTC_WEEKDAY:
		return coded(rtc, now->tm_wday + 1);
	case RTC_DAY:
		return coded(rtc, now->tm_mday);
	case RTC_MONTH:
		return coded(rtc, now->tm_mon + 1);
	case RTC_YEAR:
		return coded(rtc, now->tm_year % 100);
	case RTC_CENTURY:
		return coded(rtc, 19 + now->tm_year / 100);
	case RTC_A:
		return RTC_A_RUNNING;
	case RTC_B:
		return rtc->ram[RTC_B] | RTC_B_24H;
	case RTC_C:
		return 0;
	case RTC_D:
		return RTC_D_VALID;
	default:
		return rtc->ram[rtc->index];
	}
}

/* Two 8-bit ports; a wider access is one to each in turn. */
static void rtc_read(void *owner, uint64_t off, void *data, unsigned len)
{
	struct rtc *rtc = owner;
	uint8_t *out = data;

	pthread_mutex_lock(&rtc->lock);
	for (unsigned i = 0; i < len; i++)
		out[i] = off + i == 1 ? rtc_get(rtc) : 0xff; /* the index cannot be read */
	pthread_mutex_unlock(&rtc->lock);
}

static void rtc_write(void *owner, uint64_t off, const void *data, unsigned len)
{
	struct rtc *rtc = owner;
	const uint8_t *in = data;

	pthread_mutex_lock(&rtc->lock);
	for (unsigned i = 0; i < len && off + i < 2; i++) {
		if (off + i == 0)
			rtc->index = in[i] % RTC_BYTES; /* the top bit masks NMIs: there are none */
		else
			rtc->ram[rtc->index] = in[i];
	}
	pthread_mutex_unlock(&rtc->lock);
}

static const struct bus_ops rtc_ops = {.read = rtc_read, .write = rtc_write};

static void rtc_destroy(struct device *d)
{
	struct rtc *rtc = container_of(d, struct rtc, base);

	bus_remove(&rtc->vm->pio, RTC_PORT, rtc);
	pthread_mutex_destroy(&rtc->lock);
	free(rtc);
}

static int rtc_plug(struct rtc *rtc)
{
	const struct bus_range range = {
		.base = RTC_PORT, .len = 2, .ops = &rtc_ops, .owner = rtc, .name = rtc->base.name};
	const struct vm_platform node = {
		.hid = "PNP0B00", .base = RTC_PORT, .len = 2, .is_pio = true, .gsi = RTC_GSI};
	int r = bus_add(&rtc->vm->pio, &range);

	if (!r)
		r = vm_platform_add(rtc->vm, &node);
	if (r)
		log_err("%s: ports 0x70 and 0x71: %s", rtc->base.name, strerror(-r));
	return r;
}

static int rtc_create(struct vm *vm, const void *cfg, unsigned index, struct device **out)
{
	struct rtc *rtc = calloc(1, sizeof(*rtc));
	int r;

	(void)cfg;
	if (!rtc)
		return -ENOMEM;
	device_init(&rtc->base, &rtc_device, index, rtc_destroy);
	rtc->vm = vm;
	pthread_mutex_init(&rtc->lock, NULL);
	/*
	 * The first gmtime_r() of a process reads the time zone's file, which the filter of a vCPU
	 * would not allow.
	 */
	tzset();
	r = rtc_plug(rtc);
	if (r) {
		rtc_destroy(&rtc->base);
		return r;
	}
	*out = &rtc->base;
	return 0;
}

const struct device_type rtc_device = {
	.name = "rtc",
	.section = "rtc",
	.help = "CMOS clock: the host's time, in UTC",
	.class = DEVICE_PLATFORM,
	.create = rtc_create,
};
