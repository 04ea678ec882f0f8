# SPDX-License-Identifier: Apache-2.0
# queues.sh - a share with two request queues: requests of two CPUs go by both.
. /test/lib.sh

# Interrupts of the queue's vector so far, on all CPUs; 0 without such a queue.
interrupts() { awk -v q="requests.$1\$" '$NF ~ q { for (i = 2; $i ~ /^[0-9]+$/; i++) n += $i } END { print n + 0 }' /proc/interrupts; }
ok "the share with two queues mounts" share_mount queues /mnt/queues
mkdir /mnt/queues/q
for cpu in 1 2; do
	taskset $cpu sh -c 'for i in $(seq 100); do echo $i >/mnt/queues/q/'$cpu'-$i; done' &
done
wait
ok "two CPUs have made their files" test "$(ls /mnt/queues/q | wc -l)" = 200
ok "both queues have interrupted" test "$(interrupts 0)" -gt 20 -a "$(interrupts 1)" -gt 20
ok "every file holds what was written" sh -c 'for i in $(seq 100); do test "$(cat /mnt/queues/q/1-$i)" = $i && test "$(cat /mnt/queues/q/2-$i)" = $i || exit 1; done'
rm -r /mnt/queues/q
ok "the share with two queues is unmounted" umount /mnt/queues
