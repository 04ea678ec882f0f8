# SPDX-License-Identifier: Apache-2.0
# diskkill.sh - wherry.step=write: fio writes two disks until the host kills the machine. verify: in the next machine it finds
# all that was complete, block by block, as it has noted on the share "state".
. /test/lib.sh

disks="--name=cached --filename=/dev/$(disk cached) --name=direct --filename=/dev/$(disk direct)"
on_disks() { # OPTIONS...
	# shellcheck disable=SC2086 # words
	fio --ioengine=libaio --iodepth=16 --direct=1 --bs=4k --size=32M "$@" $disks
}
with_notes() { on_disks --aux-path=/mnt/state --verify=crc32c --verify_fatal=1 "$@"; }
finds() { with_notes --rw=randread --verify_state_load=1 >/tmp/verify 2>&1; }
enough() { [ "$(sed -n 's/.*issued rwts: total=\([0-9]*\),.*/\1/p' /tmp/verify | awk '$1 >= 100' | wc -l)" = 2 ]; }

ok "the share for what fio notes mounts" share_mount state /mnt/state
if [ "$(word step)" = write ]; then
	# The other half of each is written too, so that much is under way when the end comes.
	on_disks --offset=32M --rw=randwrite --time_based --runtime=1h --fsync=8 >/dev/null 2>&1 &
	ok "the host waits for fio's notes" host kill_at state/local-cached-0-verify.state state/local-direct-1-verify.state
	# It takes them at its trigger and would end then, but that the machine does.
	with_notes --rw=randwrite --do_verify=0 --rate_iops=200 --fsync=32 --trigger-timeout=30 --trigger=true >/tmp/write 2>&1
	echo "@@ not ok the machine is killed while fio writes ($(tail -n 1 /tmp/write))"
else
	ok "fio finds all that was complete" finds
	ok "which was something, on either disk" enough
	grep 'verify: \|issued rwts' /tmp/verify
fi
