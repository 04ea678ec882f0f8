# SPDX-License-Identifier: Apache-2.0
# many.sh - very many files in one directory: those that the host made (wherry.crowd) and a tenth as many made here.
. /test/lib.sh

crowd=$(word crowd)
count() { find dir | wc -l; } # and the directory itself
ok "the share mounts" share_mount many /mnt/many
cd /mnt/many || exit
ok "a listing has all that the host made" test "$(count)" = $((crowd + 1))
ok "a listing without a cache has them too" sh -c 'echo 3 >/proc/sys/vm/drop_caches; test "$(find dir | wc -l)" = '$((crowd + 1))
ok "no name comes twice" test -z "$(find dir | sort | uniq -d | head -n 1)"
ok "any of them is found" sh -c "for i in \$(seq 1 $((crowd / 50)) $crowd); do test -f dir/f\$i || exit 1; done"
ok "each tells its size" test "$(find dir -type f -size 0 | wc -l)" = "$crowd"
ok "as many as a tenth more are made" sh -c "cd dir && seq $((crowd / 10)) | sed s/^/g/ | xargs touch"
ok "a listing has those too" test "$(count)" = $((crowd + crowd / 10 + 1))
ok "what was made is removed while it is listed" find dir -name 'g*' -exec rm {} +
ok "a listing has what was there before" test "$(count)" = $((crowd + 1))
cd /
ok "the share is unmounted" umount /mnt/many
