# SPDX-License-Identifier: Apache-2.0
# sqlite.sh - a database in each journal mode, with two writers; WAL needs a shared mapping and locks.
. /test/lib.sh

cd /root || exit
sql() { sqlite3 -bail -cmd '.timeout 60000' "$@"; }
for mode in wal delete truncate persist; do
	rm -f db*
	ok "sqlite has journal mode $mode" test "$(sql db "PRAGMA journal_mode=$mode")" = $mode
	ok "$mode: a table is filled" sql db "CREATE TABLE t(i INTEGER PRIMARY KEY, who TEXT, b BLOB);
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<500) INSERT INTO t(who,b) SELECT 'first', randomblob(500) FROM n;"
	for who in a b; do
		(for i in $(seq 15); do sql db "INSERT INTO t(who,b) VALUES('$who', randomblob(3000));" || echo "$who failed"; done) >/tmp/$who 2>&1 &
	done
	wait
	ok "$mode: two writers take turns" sh -c 'test ! -s /tmp/a -a ! -s /tmp/b'
	ok "$mode: nothing is lost" test "$(sql db "SELECT count(*) FROM t")" = 530
	ok "$mode: the database is whole" test "$(sql db "PRAGMA integrity_check")" = ok
done
