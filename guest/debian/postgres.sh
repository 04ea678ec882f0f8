# SPDX-License-Identifier: Apache-2.0
# postgres.sh - a database cluster is made, filled, stopped hard and recovered.
. /test/lib.sh

bin=$(echo /usr/lib/postgresql/*/bin) data=/var/lib/postgresql/share
as() { su postgres -s /bin/sh -c "$1"; }
query() { as "psql -h /tmp -qtA -c \"$1\" postgres"; }
mkdir -p $data && chown postgres $data && chmod 700 $data && chmod 1777 /tmp
ok "initdb makes a cluster" as "$bin/initdb -N -D $data"
ok "the server starts" as "$bin/pg_ctl -w -t 120 -D $data -o '-k /tmp -c listen_addresses=' -l /tmp/pg.log start"
ok "a table is filled" query "CREATE TABLE t AS SELECT i, md5(i::text) FROM generate_series(1,5000) i"
ok "the server is stopped at once" as "$bin/pg_ctl -w -m immediate -D $data stop"
ok "the server recovers" as "$bin/pg_ctl -w -t 120 -D $data -o '-k /tmp -c listen_addresses=' -l /tmp/pg.log start"
ok "nothing is lost" test "$(query "SELECT count(*) FROM t")" = 5000
ok "the server stops" as "$bin/pg_ctl -w -D $data stop"
